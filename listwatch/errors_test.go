package listwatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

func TestRefusalsOfARealServer(t *testing.T) {
	for name, want := range map[string]struct {
		reason reason.Reason
		code   int
		retry  time.Duration
		says   string
	}{
		"error-bad-continue":           {reason.Rejected, 400, 0, "400 Bad Request: invalid continue token"},
		"error-continue-expired":       {reason.Expired, 410, 0, "410 Gone: The provided continue parameter is too old"},
		"error-forbidden":              {reason.Forbidden, 403, 0, `list pods: 403 Forbidden: pods is forbidden: User "weak" cannot list resource "pods" in API group "" at the cluster scope`},
		"error-invalid-field-selector": {reason.Rejected, 400, 0, "field label not supported: spec.bogus"},
		"error-list-rv-exact-expired":  {reason.Expired, 410, 0, "too old"},
		"error-list-rv-too-large":      {reason.RVTooLarge, 504, time.Second, "504 Gateway Timeout: Timeout: Too large resource version: 99999999, current: 343"},
		"error-not-acceptable":         {reason.Rejected, 406, 0, "406 Not Acceptable: 406: Not Acceptable Available representations"},
		"error-not-found-resource":     {reason.Rejected, 404, 0, "the server could not find the requested resource"},
		"error-unauthorized":           {reason.Unauthorized, 401, 0, "list pods: 401 Unauthorized: Unauthorized"},
		"error-watch-rv-garbage":       {reason.ServerError, 500, 0, "500 Internal Server Error: resourceVersion: Invalid value"},
		"watch-cbor":                   {reason.Rejected, 406, 0, "only the following media types are accepted"},
	} {
		t.Run(name, func(t *testing.T) {
			server := serveSpecimen(t, name)
			_, _, err := list[*corev1.Pod](t, server.addr, metav1.ListOptions{Continue: "token"}, nil)
			e := mustFail(t, err, want.reason)
			if e.Code != want.code || e.RetryAfter != want.retry || !e.Continue || e.Verb != "list" || e.Method != "GET" || e.Resource != pods {
				t.Errorf("error is %+v", e)
			}
			if !strings.Contains(err.Error(), want.says) || strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("error is %q, want it to say %q on one line", err, want.says)
			}
			if e.APIStatus == nil || int(e.Status().Code) != want.code || e.Status().Reason == "" {
				t.Errorf("Status is %+v", e.Status())
			}
			if e.URL != server.addr+"/api/v1/pods?continue=..." {
				t.Errorf("URL is %s", e.URL)
			}
		})
	}
}

func TestErrorIsAnAPIStatus(t *testing.T) {
	for code, is := range map[int]func(error) bool{
		401: apierrors.IsUnauthorized, 403: apierrors.IsForbidden, 404: apierrors.IsNotFound, 406: apierrors.IsNotAcceptable,
		410: apierrors.IsGone, 415: apierrors.IsUnsupportedMediaType, 429: apierrors.IsTooManyRequests,
		500: apierrors.IsInternalError, 503: apierrors.IsServiceUnavailable, 504: apierrors.IsTimeout,
	} {
		for _, body := range []string{"", "<html>", `{"kind":"Status","status":"Failure"}`} {
			server := serve(t, answerWith(code, mediaJSON, body))
			_, _, err := list[*corev1.Pod](t, server.URL, metav1.ListOptions{}, nil)
			if !is(fmt.Errorf("wrapped: %w", err)) {
				t.Errorf("%d with body %q: reason is %q", code, body, apierrors.ReasonForError(err))
			}
		}
	}
	// A failure without an answer is none of them.
	e := &Error{Reason: reason.Transport, Verb: "list", Err: io.ErrUnexpectedEOF}
	if r := apierrors.ReasonForError(e); r != metav1.StatusReasonUnknown || e.Status().Code != 0 {
		t.Errorf("reason %q, %+v", r, e.Status())
	}
}

func TestRefusalWithoutAStatus(t *testing.T) {
	page := "<!DOCTYPE html><html><head><style>p{color:red}</style><script>alert('x < y')</script><title>502 Bad Gateway</title></head>\n<body><p>nginx\t\x00\x1b[31m &amp; co</p></body></html>"
	for _, c := range []struct{ name, contentType, body, want string }{
		{"html", "text/html", page, "list pods: 502 Bad Gateway: 502 Bad Gateway nginx [31m &amp; co"},
		{"html called text", "text/plain", page, "list pods: 502 Bad Gateway: 502 Bad Gateway nginx [31m &amp; co"},
		{"text", "text/plain", "upstream\r\nconnect  error", "list pods: 502 Bad Gateway: upstream connect error"},
		{"empty", "text/plain", "", "list pods: 502 Bad Gateway"},
		{"binary", "application/octet-stream", "\xff\xfe\x00ab", "list pods: 502 Bad Gateway: ab"},
		{"long", "text/plain", strings.Repeat("ab ", 1000), "list pods: 502 Bad Gateway: " + strings.Repeat("ab ", 85) + "a..."},
		{"unfinished tag", "text/html", "<html>down<scr", "list pods: 502 Bad Gateway: down"},
		{"JSON of another kind", mediaJSON, `{"error": {"text": "no"}}`, `list pods: 502 Bad Gateway: {"error": {"text": "no"}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := serve(t, answerWith(502, c.contentType, c.body))
			_, _, err := list[*corev1.Pod](t, server.URL, metav1.ListOptions{}, nil)
			if e := mustFail(t, err, reason.ServerError); e.Code != 502 || e.APIStatus != nil {
				t.Errorf("error is %+v", e)
			}
			if err.Error() != c.want {
				t.Errorf("error is\n%q, want\n%q", err, c.want)
			}
		})
	}
}

// TestNotFoundWithoutAStatus: what answers 404 and no Status is hardly an API
// server, and the message says which one was asked.
func TestNotFoundWithoutAStatus(t *testing.T) {
	server := serve(t, answerWith(404, "text/plain", "404 page not found\n"))
	_, _, err := list[*corev1.Pod](t, server.URL, metav1.ListOptions{}, nil)
	mustFail(t, err, reason.Rejected)
	if want := "list pods: 404 Not Found: 404 page not found: is " + server.URL + " a Kubernetes API server?"; err.Error() != want {
		t.Errorf("error is\n%q, want\n%q", err, want)
	}
}

func TestRefusalInOtherEncodings(t *testing.T) {
	status := metav1.Status{Status: "Failure", Message: "no\nprotobuf", Reason: "NotAcceptable", Code: 406}
	raw, err := status.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Status"}, Raw: raw}
	message, err := unknown.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	server := serve(t, answerWith(406, mediaProtobuf, decode.Magic+string(message)))
	_, _, err = list[*corev1.Pod](t, server.URL, metav1.ListOptions{}, func(c *Config) { c.Encoding = EncodingProtobuf })
	mustFail(t, err, reason.Rejected)
	if err.Error() != "list pods: 406 Not Acceptable: no protobuf" {
		t.Errorf("error is %q", err)
	}
	pretty := serve(t, answerWith(429, mediaJSON, "{\n  \"kind\": \"Status\",\n  \"message\": \"slow down\",\n  \"details\": {\n \"retryAfterSeconds\": 7\n}}\n"))
	_, _, err = list[*corev1.Pod](t, pretty.URL, metav1.ListOptions{}, nil)
	if e := mustFail(t, err, reason.TooManyRequests); e.RetryAfter != 7*time.Second || !strings.HasSuffix(err.Error(), "429 Too Many Requests: slow down") {
		t.Errorf("error is %v, %+v", err, e)
	}
}

// "of an answer's body no more than MaxErrorBodyBytes is read"
func TestRefusalIsReadBounded(t *testing.T) {
	wrote := make(chan int, 1)
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(500)
		total := 0
		for {
			n, err := io.WriteString(w, strings.Repeat("x", 1<<16))
			if total += n; err != nil || total > 1<<30 {
				wrote <- total
				return
			}
		}
	})
	_, _, err := list[*corev1.Pod](t, server.URL, metav1.ListOptions{}, nil)
	mustFail(t, err, reason.ServerError)
	if n := <-wrote; n > 64<<20 {
		t.Errorf("the server could send %d bytes of an error", n)
	}
}

func TestHeaderIsBounded(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Large", strings.Repeat("x", 2*MaxHeaderBytes))
	})
	_, _, err := list[*corev1.Pod](t, server.URL, metav1.ListOptions{}, nil)
	mustFail(t, err, reason.Transport)
	if !strings.Contains(err.Error(), fmt.Sprintf("headers exceeded %d bytes", MaxHeaderBytes)) {
		t.Errorf("error is %q", err)
	}
}

func TestClassify(t *testing.T) {
	tooLarge := &metav1.Status{Reason: "Timeout", Message: "Timeout: Too large resource version: 9, current: 1",
		Details: &metav1.StatusDetails{RetryAfterSeconds: 1, Causes: []metav1.StatusCause{{Type: "ResourceVersionTooLarge"}}}}
	for _, c := range []struct {
		code int
		s    *metav1.Status
		want reason.Reason
	}{
		{504, tooLarge, reason.RVTooLarge},
		{500, tooLarge, reason.RVTooLarge},
		{0, tooLarge, reason.RVTooLarge},
		{504, &metav1.Status{Message: "Timeout: Too large resource version: 9, current: 1"}, reason.RVTooLarge},
		{0, &metav1.Status{Message: "Too large resource version: 9"}, reason.RVTooLarge},
		{403, &metav1.Status{Reason: "Forbidden", Message: `User "Too large resource version" cannot`}, reason.Forbidden},
		{504, &metav1.Status{Reason: "Timeout", Message: "request did not complete"}, reason.ServerError},
		{410, nil, reason.Expired},
		{410, &metav1.Status{Reason: "Gone"}, reason.Expired},
		{0, &metav1.Status{Reason: "Expired"}, reason.Expired},
		{500, &metav1.Status{Reason: "Expired"}, reason.Expired},
		{429, &metav1.Status{Message: "storage is (re)initializing"}, reason.TooManyRequests},
		{0, &metav1.Status{Reason: "TooManyRequests"}, reason.TooManyRequests},
		{401, nil, reason.Unauthorized}, {403, nil, reason.Forbidden},
		{0, &metav1.Status{Reason: "Unauthorized"}, reason.Unauthorized}, {0, &metav1.Status{Reason: "Forbidden"}, reason.Forbidden},
		{400, nil, reason.Rejected}, {404, nil, reason.Rejected}, {405, nil, reason.Rejected}, {406, nil, reason.Rejected},
		{415, nil, reason.Rejected}, {422, nil, reason.Rejected}, {304, nil, reason.Rejected}, {302, nil, reason.Rejected},
		{0, &metav1.Status{Reason: "NotFound"}, reason.Rejected}, {0, &metav1.Status{Reason: "Invalid"}, reason.Rejected},
		{500, nil, reason.ServerError}, {501, nil, reason.ServerError}, {503, nil, reason.ServerError}, {599, nil, reason.ServerError}, {999, nil, reason.ServerError},
		{0, nil, reason.ServerError}, {0, &metav1.Status{Reason: "InternalError"}, reason.ServerError},
		{204, nil, reason.Decode}, {206, nil, reason.Decode},
	} {
		if got := classify(c.code, c.s); got != c.want {
			t.Errorf("classify(%d, %+v) is %s, want %s", c.code, c.s, got, c.want)
		}
		if c.s == nil {
			continue
		}
		s := *c.s
		s.Code = int32(c.code)
		e := FromStatus(&s)
		if e.Reason != c.want || e.Code != c.code || e.Verb != "watch" || e.RetryAfter != statusRetryAfter(c.s) {
			t.Errorf("FromStatus(%+v) is %+v, want %s", s, e, c.want)
		}
	}
}

func TestFromStatusText(t *testing.T) {
	e := FromStatus(&metav1.Status{Code: 410, Reason: "Expired", Message: "too old resource version: 220 (367)"})
	if e.Error() != "watch: 410 Gone: too old resource version: 220 (367)" || !apierrors.IsResourceExpired(e) {
		t.Errorf("error is %q", e)
	}
	e.Resource = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	if e.Error() != "watch deployments.apps: 410 Gone: too old resource version: 220 (367)" {
		t.Errorf("error is %q", e)
	}
	if e := FromStatus(nil); e.Reason != reason.ServerError || e.Error() != "watch: server_error" {
		t.Errorf("error is %+v %q", e, e)
	}
}

func TestParseRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 30, 7, 0, 0, 0, time.UTC)
	at := func(d time.Duration) string { return now.Add(d).Format(http.TimeFormat) }
	for _, c := range []struct {
		header, date string
		want         time.Duration
	}{
		{"", "", 0},
		{"2", "", 2 * time.Second},
		{" 2 ", "", 2 * time.Second},
		{"0", "", 0},
		{"99999", "", 99999 * time.Second},
		{"-1", "", 0},
		{"+1", "", 0},
		{"1.5", "", 0},
		{"abc", "", 0},
		{"1e3", "", 0},
		{strings.Repeat("9", 400), "", math.MaxInt64 / time.Second * time.Second},
		{"9223372037", "", math.MaxInt64 / time.Second * time.Second},
		{"9223372036", "", 9223372036 * time.Second},
		{at(30 * time.Second), "", 30 * time.Second},
		{at(-30 * time.Second), "", 0},
		{at(90 * time.Second), at(60 * time.Second), 30 * time.Second}, // the server's clock runs ahead
		{at(90 * time.Second), "not a date", 90 * time.Second},
		{now.Add(time.Minute).Format(time.RFC850), "", time.Minute},
		{"Fri, 31 Dec 9999 23:59:59 GMT", "", math.MaxInt64},
	} {
		if got := parseRetryAfter(c.header, c.date, now); got != c.want {
			t.Errorf("parseRetryAfter(%.40q, %q) is %s, want %s", c.header, c.date, got, c.want)
		}
	}
}

// "RetryAfter is the longer one of the header Retry-After (seconds or date) and
// details.retryAfterSeconds, in a response or in an ERROR event."
func TestRetryAfterIsTheLongerOne(t *testing.T) {
	for header, want := range map[string]time.Duration{"2": 5 * time.Second, "9": 9 * time.Second, "-1": 5 * time.Second} {
		server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", header)
			w.WriteHeader(429)
			io.WriteString(w, `{"kind":"Status","details":{"retryAfterSeconds":5},"message":"x"}`)
		})
		_, _, err := list[*corev1.Pod](t, server.URL, metav1.ListOptions{}, nil)
		if e := mustFail(t, err, reason.TooManyRequests); e.RetryAfter != want {
			t.Errorf("Retry-After %s: %s, want %s", header, e.RetryAfter, want)
		}
	}
}

func TestForbiddenNamesTheNodeRuleOnlyToANodeThatBrokeIt(t *testing.T) {
	const rule = "a node may list and watch pods only with the field selector spec.nodeName=node-a"
	node := `pods is forbidden: User \"system:node:node-a\" cannot list resource \"pods\" in API group \"\" at the cluster scope: can only list/watch pods with spec.nodeName field selector`
	for _, c := range []struct {
		name, message, selector string
		resource                schema.GroupVersionResource
		want                    bool
	}{
		{"no selector", node, "", pods, true},
		{"another node", node, "spec.nodeName=node-b", pods, true},
		{"kept", node, "spec.nodeName=node-a", pods, false},
		{"kept among others", node, "status.phase!=Failed,spec.nodeName=node-a", pods, false},
		{"another user", `pods is forbidden: User \"weak\" cannot list`, "", pods, false},
		{"another resource", node, "", corev1.SchemeGroupVersion.WithResource("secrets"), false},
	} {
		server := serve(t, answerWith(403, mediaJSON, `{"kind":"Status","reason":"Forbidden","message":"`+c.message+`"}`))
		_, _, err := list[*corev1.Pod](t, server.URL, metav1.ListOptions{FieldSelector: c.selector}, func(conf *Config) { conf.Resource = c.resource })
		mustFail(t, err, reason.Forbidden)
		if got := strings.HasSuffix(err.Error(), rule); got != c.want {
			t.Errorf("%s: error is %q", c.name, err)
		}
	}
}

// A 403 says who was refused; the same in an answer and in an ERROR event.
func TestForbiddenNamesTheUser(t *testing.T) {
	for message, want := range map[string]string{
		`pods is forbidden: User "system:node:a" cannot list resource "pods"`: "system:node:a",
		`pods is forbidden: User "" cannot list`:                              "",
		`User "cut off`:                                                       "",
		``:                                                                    "",
		`User "a
b" cannot list`: "a b",
	} {
		s := &metav1.Status{Reason: metav1.StatusReasonForbidden, Code: 403, Message: message}
		if got := FromStatus(s).User; got != want {
			t.Errorf("event %s: %q, want %q", message, got, want)
		}
		body, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		server := serve(t, answerWith(403, mediaJSON, string(body)))
		_, _, err = list[*corev1.Pod](t, server.URL, metav1.ListOptions{}, nil)
		if got := mustFail(t, err, reason.Forbidden).User; got != want {
			t.Errorf("answer %s: %q, want %q", message, got, want)
		}
	}
	// Any other message may quote anything.
	if e := FromStatus(&metav1.Status{Code: 500, Message: `User "a" cannot list`}); e.User != "" {
		t.Errorf("a 500 names the user %q", e.User)
	}
}

func TestRefusesInitialEvents(t *testing.T) {
	refused := map[int]bool{400: true, 403: true, 405: true, 406: true, 415: true, 422: true, 501: true}
	for code := 200; code < 600; code++ {
		if got := (&Error{Code: code}).RefusesInitialEvents(); got != refused[code] {
			t.Errorf("%d: %v", code, got)
		}
	}
	if !(&Error{Reason: reason.Forbidden}).RefusesInitialEvents() || (&Error{Reason: reason.Transport}).RefusesInitialEvents() {
		t.Error("without a code only Forbidden refuses")
	}
}

func TestTransportFaults(t *testing.T) {
	_, _, err := list[*corev1.Pod](t, "http://127.0.0.1:1", metav1.ListOptions{}, nil)
	mustFail(t, err, reason.Transport)
	if !strings.HasPrefix(err.Error(), "list pods: dial tcp 127.0.0.1:1: connect: connection refused") {
		t.Errorf("error is %q", err)
	}
	closing := serveRaw(t, func(*http.Request) []byte { return nil })
	_, _, err = list[*corev1.Pod](t, closing.addr, metav1.ListOptions{}, nil)
	mustFail(t, err, reason.Transport)
	garbage := serveRaw(t, func(*http.Request) []byte { return []byte("SSH-2.0-OpenSSH\r\n\r\n") })
	_, _, err = list[*corev1.Pod](t, garbage.addr, metav1.ListOptions{}, nil)
	mustFail(t, err, reason.Transport)
	plain := serve(t, answerWith(200, mediaJSON, `{}`))
	_, _, err = list[*corev1.Pod](t, strings.Replace(plain.URL, "http", "https", 1), metav1.ListOptions{}, nil)
	mustFail(t, err, reason.Transport)
}

func TestEveryReasonIsOfTheClosedSet(t *testing.T) {
	known := map[reason.Reason]bool{}
	for _, r := range reason.All() {
		known[r] = true
	}
	for code := range 700 {
		if r := classify(code, nil); !known[r] {
			t.Errorf("%d is %q", code, r)
		}
	}
}

func TestOneLine(t *testing.T) {
	for _, c := range []struct {
		in    string
		limit int
		want  string
	}{
		{"", 9, ""},
		{"  a \n\t b  ", 9, "a b"},
		{"a\x00\x1b]0;title\x07b", 99, "a]0;titleb"},
		{"caf\u00e9 \u202ereversed\xff", 99, "caf\u00e9 reversed"},
		{strings.Repeat("\u00e9", 9), 12, strings.Repeat("\u00e9", 5) + "..."},
	} {
		if got := oneLine(c.in, c.limit); got != c.want {
			t.Errorf("oneLine(%q, %d) is %q, want %q", c.in, c.limit, got, c.want)
		}
	}
}

func TestTimeoutErrorIsADeadline(t *testing.T) {
	err := error(&Error{Reason: reason.Deadline, Verb: "watch", Resource: pods, Err: &TimeoutError{Waiting: "the response header", Limit: time.Second}})
	var timeout interface{ Timeout() bool }
	if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("%v is no timeout", err)
	}
	if err.Error() != "watch pods: timed out after 1s waiting for the response header" {
		t.Errorf("error is %q", err)
	}
}

func TestFieldSelectorsOfRequestsReachTheHint(t *testing.T) {
	server := serve(t, answerWith(403, mediaJSON, `{"kind":"Status","message":"pods is forbidden: User \"system:node:node-a\" cannot list"}`))
	_, _, err := list[*corev1.Pod](t, server.URL, metav1.ListOptions{}, func(c *Config) {
		c.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", "node-a")
	})
	if strings.Contains(err.Error(), "only with") {
		t.Errorf("error is misleading: %q", err)
	}
}
