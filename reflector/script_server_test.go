package reflector_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/streamwatcher"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// scripted is the server of a script: a ListerWatcher whose watches are bytes
// that go through a StreamWatcher.
type scripted struct {
	*script
	dec  decode.Decoder[*corev1.Pod]
	done chan struct{} // closed when the last answer is given or held

	mu    sync.Mutex
	n     int
	ended time.Time // of the last answer
	log   []string  // what came
	fault string    // the first request that was not in the script
}

var pods = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

func (s *scripted) Resource() schema.GroupVersionResource { return pods }

// next checks one request and returns its step.
func (s *scripted) next(request string) (*scriptStep, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gap := time.Since(s.ended)
	s.log = append(s.log, fmt.Sprintf("+%v %s", gap.Round(time.Millisecond), request))
	if s.fault != "" {
		return nil, false
	}
	if s.n >= len(s.steps) {
		s.failLocked("after the last step came " + request)
		return nil, false
	}
	st := &s.steps[s.n]
	s.n++
	if !matches(st.request, request) {
		s.failLocked(fmt.Sprintf("line %d: want %q, got %q", st.line, st.request, request))
		return nil, false
	}
	if st.timed && (gap < st.after[0] || gap > st.after[1]) {
		s.failLocked(fmt.Sprintf("line %d: %s came %v after the last answer, want %v to %v", st.line, request, gap, st.after[0], st.after[1]))
		return nil, false
	}
	return st, s.n == len(s.steps)
}

// matches compares a request with what a script wants, in which "rv=*" is any.
func matches(want, got string) bool {
	if verb, ok := strings.CutSuffix(want, "rv=*"); ok {
		return strings.HasPrefix(got, verb+"rv=")
	}
	return want == got
}

func (s *scripted) failLocked(text string) {
	s.fault = text
	select {
	case <-s.done:
	default:
		close(s.done)
	}
}

// answered notes the end of an answer.
func (s *scripted) answered(last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = time.Now()
	if last && s.fault == "" {
		select {
		case <-s.done:
		default:
			close(s.done)
		}
	}
}

func (s *scripted) bad(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failLocked(fmt.Sprintf(format, args...))
}

func (s *scripted) List(ctx context.Context, opts metav1.ListOptions, sink listwatch.Sink[*corev1.Pod]) (metav1.ListMeta, error) {
	request := "LIST rv=" + opts.ResourceVersion
	if opts.Limit > 0 {
		request += fmt.Sprintf(" limit=%d", opts.Limit)
	}
	if opts.Continue != "" {
		request += " continue=" + opts.Continue
	}
	if opts.ResourceVersion != "" && opts.ResourceVersionMatch != metav1.ResourceVersionMatchNotOlderThan {
		s.bad("a list at a resourceVersion has resourceVersionMatch %q", opts.ResourceVersionMatch)
	}
	st, last := s.next(request)
	if st == nil {
		<-ctx.Done()
		return metav1.ListMeta{}, ctx.Err()
	}
	defer s.answered(last)
	meta := metav1.ListMeta{}
	for _, a := range st.answers {
		word, rest, _ := strings.Cut(a, " ")
		if err, failed := s.failure(ctx, "list", a, opts.Continue != ""); failed {
			return meta, err
		}
		switch word {
		case "sleep":
			d, _ := time.ParseDuration(rest)
			time.Sleep(d)
		case "list":
			words := strings.Fields(rest)
			meta.ResourceVersion = words[0]
			if words[0] == "-" {
				meta.ResourceVersion = ""
			}
			var items []string
			late := false
			for _, w := range words[1:] {
				switch k, v, _ := strings.Cut(w, "="); k {
				case "continue":
					meta.Continue = v
				case "remaining":
					n, _ := strconv.ParseInt(v, 10, 64)
					meta.RemainingItemCount = &n
				case "meta":
					late = v == "last"
				default:
					items = append(items, w)
				}
			}
			if !late {
				if err := sink.Meta(meta); err != nil {
					return metav1.ListMeta{}, err
				}
			}
			for _, w := range items {
				raw := object(w)
				m, err := decode.Peek(decode.JSON, raw)
				if err != nil && w != "toolarge" {
					return metav1.ListMeta{}, err
				}
				o := decode.NewObject(m, decode.JSON, raw, s.dec)
				if err := sink.Item(&o); err != nil {
					return metav1.ListMeta{}, err
				}
			}
			if late {
				return meta, sink.Meta(meta)
			}
		default:
			s.bad("line %d: unknown answer %q", st.line, a)
		}
	}
	return meta, nil
}

// failure is the answers that are no success, the same for all requests:
// a code with a Status, "refused", "hang", "login".
func (s *scripted) failure(ctx context.Context, verb, a string, token bool) (error, bool) {
	word, rest, _ := strings.Cut(a, " ")
	e := &listwatch.Error{Verb: verb, Resource: pods, Method: http.MethodGet, URL: "https://server/api/v1/pods", Continue: token}
	switch word {
	case "refused":
		e.Reason, e.Err = reason.Transport, syscall.ECONNREFUSED
	case "login":
		e.Reason, e.Code, e.Err = reason.Decode, 200, errors.New("text/html is no list")
	case "headertimeout":
		time.Sleep(2 * time.Second)
		e.Reason, e.Err = reason.Deadline, &listwatch.TimeoutError{Waiting: "response header", Limit: 2 * time.Second}
	case "hang":
		<-ctx.Done()
		e.Reason, e.Err = reason.Stopped, context.Cause(ctx)
	default:
		code, err := strconv.Atoi(word)
		if err != nil {
			return nil, false
		}
		st := status(code, rest)
		f := listwatch.FromStatus(st)
		f.Verb, f.Resource, f.Continue = verb, pods, token
		return f, true
	}
	return e, true
}

// status makes the Status of "410 Expired too old" or "429 TooManyRequests retry=2s …".
func status(code int, text string) *metav1.Status {
	why, message, _ := strings.Cut(text, " ")
	st := &metav1.Status{Status: metav1.StatusFailure, Code: int32(code), Reason: metav1.StatusReason(why)}
	if after, ok := strings.CutPrefix(message, "retry="); ok {
		var seconds string
		seconds, message, _ = strings.Cut(after, " ")
		d, _ := time.ParseDuration(seconds)
		st.Details = &metav1.StatusDetails{RetryAfterSeconds: int32(d / time.Second)}
	}
	st.Message = message
	if why == "TooLarge" {
		st.Reason, st.Message = metav1.StatusReasonTimeout, "Timeout: Too large resource version: "+message
	}
	return st
}

func (s *scripted) Watch(ctx context.Context, opts metav1.ListOptions) (*streamwatcher.StreamWatcher[*corev1.Pod], error) {
	request := "WATCH rv=" + opts.ResourceVersion
	if opts.SendInitialEvents != nil && *opts.SendInitialEvents {
		request = "WATCHLIST rv=" + opts.ResourceVersion
		if opts.ResourceVersionMatch != metav1.ResourceVersionMatchNotOlderThan {
			s.bad("a watch-list has resourceVersionMatch %q", opts.ResourceVersionMatch)
		}
	}
	if !opts.AllowWatchBookmarks || opts.TimeoutSeconds == nil || *opts.TimeoutSeconds < 1 {
		s.bad("%s: bookmarks %v, timeoutSeconds %v", request, opts.AllowWatchBookmarks, opts.TimeoutSeconds)
	}
	st, last := s.next(request)
	if st == nil {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if len(st.answers) == 1 {
		if err, failed := s.failure(ctx, "watch", st.answers[0], false); failed {
			s.answered(last)
			return nil, err
		}
	}
	read, write := io.Pipe()
	go func() {
		stop := context.AfterFunc(ctx, func() { write.CloseWithError(ctx.Err()) })
		defer stop()
		for _, a := range st.answers {
			if !s.stream(ctx, write, a, opts, last) {
				return
			}
		}
		s.answered(last)
		_ = write.Close()
	}()
	return streamwatcher.New(streamwatcher.Config[*corev1.Pod]{Body: read, ContentType: "application/json", Decoder: s.dec})
}

// stream writes one answer line to an open watch; false when the watch is over.
func (s *scripted) stream(ctx context.Context, w *io.PipeWriter, a string, opts metav1.ListOptions, last bool) bool {
	word, rest, _ := strings.Cut(a, " ")
	send := func(typ string, object []byte) bool {
		_, err := fmt.Fprintf(w, "{\"type\":%q,\"object\":%s}\n", typ, object)
		return err == nil
	}
	pause := func(d time.Duration) bool {
		select {
		case <-time.After(d):
			return true
		case <-ctx.Done():
			return false
		}
	}
	switch word {
	case "END":
		s.answered(last) // before the client can know
		_ = w.Close()
		return false
	case "RST":
		s.answered(last)
		_ = w.CloseWithError(&os.SyscallError{Syscall: "read", Err: syscall.ECONNRESET})
		return false
	case "CUT":
		_, _ = io.WriteString(w, `{"type":"ADDED","object":{"kind":"Po`)
		s.answered(last)
		_ = w.Close()
		return false
	case "TIMEOUT": // the server keeps to timeoutSeconds
		if !pause(time.Duration(*opts.TimeoutSeconds) * time.Second) {
			return false
		}
		s.answered(last)
		_ = w.Close()
		return false
	case "hold":
		s.answered(last)
		<-ctx.Done()
		return false
	case "sleep":
		d, _ := time.ParseDuration(rest)
		return pause(d)
	case "beat": // beat PERIOD TIMES RV
		f := strings.Fields(rest)
		d, _ := time.ParseDuration(f[0])
		n, _ := strconv.Atoi(f[1])
		for range n {
			if !pause(d) || !send("BOOKMARK", bookmark(f[2], false)) {
				return false
			}
		}
		return true
	case "raw":
		_, err := io.WriteString(w, rest+"\n")
		return err == nil
	case "BOOKMARK":
		return send(word, bookmark(rest, false))
	case "MARK":
		return send("BOOKMARK", bookmark(rest, true))
	case "ERROR":
		code, text, _ := strings.Cut(rest, " ")
		n, _ := strconv.Atoi(code)
		raw, _ := json.Marshal(status(n, text))
		return send(word, raw)
	case "flood": // flood TIMES TYPE OBJECT
		f := strings.Fields(rest)
		n, _ := strconv.Atoi(f[0])
		for range n {
			if !send(f[1], object(f[2])) {
				return false
			}
		}
		return true
	case "churn": // churn PERIOD TIMES NAME RV: MODIFIED with ever newer versions
		f := strings.Fields(rest)
		d, _ := time.ParseDuration(f[0])
		n, _ := strconv.Atoi(f[1])
		rv, _ := strconv.Atoi(f[3])
		for i := range n {
			if !pause(d) || !send("MODIFIED", object(fmt.Sprintf("%s@%d", f[2], rv+i))) {
				return false
			}
		}
		return true
	}
	for _, o := range strings.Fields(rest) {
		if !send(word, object(o)) {
			return false
		}
	}
	return true
}

func bookmark(rv string, end bool) []byte {
	annotations := ""
	if end {
		annotations = `,"annotations":{"k8s.io/initial-events-end":"true"}`
	}
	return fmt.Appendf(nil, `{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":%q,"creationTimestamp":null%s},"spec":{"containers":null},"status":{}}`, rv, annotations)
}

// object makes the JSON of NAME@RV, NAME@RV/UID, NAME@RV! (does not decode),
// KIND:NAME@RV (another kind), noname (no name), NAME@RV=PHASE.
func object(word string) []byte {
	kind, text, other := strings.Cut(word, ":")
	if !other {
		kind, text = "Pod", word
	}
	text, phase, _ := strings.Cut(text, "=")
	spec := "{}"
	if cut, bad := strings.CutSuffix(text, "!"); bad {
		text, spec = cut, `{"restartPolicy":7}`
	}
	name, rv, _ := strings.Cut(text, "@")
	rv, uid, own := strings.Cut(rv, "/")
	if !own {
		uid = "uid-" + name
	}
	if name == "noname" {
		name = ""
	}
	if name == "toolarge" {
		return []byte(`{"metadata":7}`)
	}
	return fmt.Appendf(nil, `{"kind":%q,"apiVersion":"v1","metadata":{"name":%q,"namespace":"default","uid":%q,"resourceVersion":%q},"spec":%s,"status":{"phase":%q}}`,
		kind, name, uid, rv, spec, phase)
}
