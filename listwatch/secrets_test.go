package listwatch

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/streamwatcher"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// "Tokens, passwords and URL user info are in no error and in no log line, also
// when a server or a proxy sends them back."
func TestSecretsAreInNoErrorAndNoLog(t *testing.T) {
	const password = "planted-pass&word"
	basic := base64.StdEncoding.EncodeToString([]byte("user:" + password))
	secrets := []string{plantedToken, password, basic, "planted-query"}
	own := func(r *http.Request) string {
		if _, pass, ok := r.BasicAuth(); ok {
			return pass
		}
		return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	}
	auths := map[string]func(*Config){
		"token": withToken,
		"basic": func(c *Config) { c.REST.Username, c.REST.Password = "user", password },
	}
	// Each answer echoes the request in its own way.
	echo := func(r *http.Request) string {
		_, pass, _ := r.BasicAuth()
		return r.Header.Get("Authorization") + " " + pass
	}
	answers := map[string]func(http.ResponseWriter, *http.Request){
		"status": func(w http.ResponseWriter, r *http.Request) {
			answerWith(403, mediaJSON, fmt.Sprintf(`{"kind":"Status","message":%q}`, "no: "+echo(r)))(w, r)
		},
		"escaped status": func(w http.ResponseWriter, r *http.Request) {
			answerWith(403, mediaJSON, `{"kind":"Status","message":"no: `+strings.ReplaceAll(echo(r), "&", `\u0026`)+`"}`)(w, r)
		},
		"html": func(w http.ResponseWriter, r *http.Request) {
			answerWith(502, "text/html", "<html><body>"+echo(r)+"</body></html>")(w, r)
		},
		"login page": func(w http.ResponseWriter, r *http.Request) {
			answerWith(200, "text/html", "<html><body>"+echo(r)+"</body></html>")(w, r)
		},
		"broken list": func(w http.ResponseWriter, r *http.Request) {
			answerWith(200, mediaJSON, echo(r))(w, r)
		},
		"content type": func(w http.ResponseWriter, r *http.Request) {
			answerWith(200, "x/"+echo(r), "")(w, r)
		},
		"content encoding": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", echo(r))
			answerWith(200, mediaJSON, "")(w, r)
		},
		"error event": func(w http.ResponseWriter, r *http.Request) {
			answerWith(200, mediaJSON, fmt.Sprintf(`{"type":"ERROR","object":{"kind":"Status","status":"Failure","code":500,"reason":%[1]q,`+
				`"message":%[1]q,"details":{"causes":[{"message":%[1]q}]}}}`, echo(r)))(w, r)
		},
		"escaped error event": func(w http.ResponseWriter, r *http.Request) {
			escaped := strings.NewReplacer("&", `\u0026`, "p", `\u0070`).Replace(echo(r))
			answerWith(200, mediaJSON, `{"type":"ERROR","object":{"kind":"Status","code":500,"message":"`+escaped+`"}}`)(w, r)
		},
		"error event that is no Status": func(w http.ResponseWriter, r *http.Request) {
			answerWith(200, mediaJSON, fmt.Sprintf(`{"type":"ERROR","object":{"metadata":{"creationTimestamp":%[1]q},"code":%[1]q}}`, echo(r)))(w, r)
		},
		"no watch": func(w http.ResponseWriter, r *http.Request) {
			answerWith(200, mediaJSON, "you sent "+echo(r))(w, r)
		},
		"no watch, cut in the secret": func(w http.ResponseWriter, r *http.Request) {
			answerWith(200, mediaJSON, strings.Repeat("x", 30)+echo(r))(w, r)
		},
		"no watch in protobuf": func(w http.ResponseWriter, r *http.Request) {
			answerWith(200, mediaProtobuf, echo(r))(w, r)
		},
		"object of an echoed type": func(w http.ResponseWriter, r *http.Request) {
			object, err := (&runtime.Unknown{ContentType: echo(r)}).Marshal()
			if err != nil {
				t.Error(err)
			}
			event, err := (&metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Raw: append([]byte(decode.Magic), object...)}}).Marshal()
			if err != nil {
				t.Error(err)
			}
			answerWith(200, mediaProtobuf, string(binary.BigEndian.AppendUint32(nil, uint32(len(event))))+string(event))(w, r)
		},
		"object that does not decode": func(w http.ResponseWriter, r *http.Request) {
			pod := fmt.Sprintf(`{"kind":"Pod","metadata":{"name":"p","creationTimestamp":%q}}`, echo(r))
			if r.URL.Query().Get("watch") != "" {
				answerWith(200, mediaJSON, `{"type":"ADDED","object":`+pod+`}`)(w, r)
				return
			}
			answerWith(200, mediaJSON, `{"kind":"PodList","items":[`+pod+`],"items":0}`)(w, r)
		},
		"long content type": func(w http.ResponseWriter, r *http.Request) {
			answerWith(200, "x/"+strings.Repeat("x", 113)+own(r), "")(w, r)
		},
		"kind": func(w http.ResponseWriter, r *http.Request) {
			answerWith(200, mediaJSON, fmt.Sprintf(`{"kind":%q}`, echo(r)))(w, r)
		},
		"broken header": func(w http.ResponseWriter, r *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nX %s\r\n\r\n", echo(r))
		},
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "http://user:"+plantedToken+"@other.example/"+plantedToken+"?x=planted-query")
			w.WriteHeader(302)
		},
		"redirect to the secret": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "http://"+own(r)+".example/")
			w.WriteHeader(302)
		},
	}
	for auth, with := range auths {
		for name, answer := range answers {
			t.Run(auth+"/"+name, func(t *testing.T) {
				server := serve(t, answer)
				logs := &safeBuffer{}
				lw := newFor[*corev1.Pod](t, server.URL, func(c *Config) {
					with(c)
					c.Logger = slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug - 100}))
				})
				sink := &recorder[*corev1.Pod]{}
				_, listErr := lw.List(t.Context(), metav1.ListOptions{}, sink)
				stream, watchErr := lw.Watch(t.Context(), metav1.ListOptions{})
				if listErr == nil {
					t.Fatal("no error")
				}
				shown := fmt.Sprint(sink.errs)
				for watchErr == nil {
					var ev *streamwatcher.Event[*corev1.Pod]
					if ev, watchErr = stream.Next(); watchErr != nil {
						stream.Stop()
						break
					}
					_, err := ev.Object.Decode()
					shown += fmt.Sprintf("%+v %v", ev.Status, err)
					if ev.Status != nil {
						shown += fmt.Sprintf("%+v", FromStatus(ev.Status))
					}
				}
				shown += fmt.Sprintf("%v %+v %v %+v %s", listErr, listErr, watchErr, watchErr, logs)
				for _, err := range []error{listErr, watchErr} {
					if e, ok := err.(*Error); ok {
						shown += fmt.Sprintf("%+v %+v", e.Status(), e.URL)
					}
				}
				for _, secret := range append(secrets, "plant", basic[:5]) {
					if strings.Contains(shown, secret) {
						t.Errorf("%q is shown: %s", secret, shown)
					}
				}
			})
		}
	}
}

// What a transport says may quote the request too, when the header is long past.
func TestSecretsInTheErrorOfABody(t *testing.T) {
	lw := newFor[*corev1.Pod](t, "http://api.example", func(c *Config) {
		withToken(c)
		c.REST.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			body := iotest.ErrReader(errors.New("GOAWAY of " + r.Header.Get("Authorization")))
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {mediaJSON}}, Body: io.NopCloser(body)}, nil
		})
	})
	_, listErr := lw.List(t.Context(), metav1.ListOptions{}, &recorder[*corev1.Pod]{})
	stream, err := lw.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Stop()
	_, watchErr := stream.Next()
	for _, err := range []error{listErr, watchErr} {
		if text := fmt.Sprintf("%v %+v", err, err); strings.Contains(text, "plant") || !strings.Contains(text, "GOAWAY of Bearer ****") {
			t.Errorf("error is %q", text)
		}
	}
}

// A text may have been cut in the middle of a secret before it comes here.
func TestPartsOfASecretAreOverwritten(t *testing.T) {
	const secret = "0123456789abcdefghij"
	for text, want := range map[string]string{
		"":                             "",
		"nothing":                      "nothing",
		"a " + secret + " b " + secret: "a ******************** b ********************",
		"cut " + secret[:12]:           "cut ************",
		"cut " + secret[:15] + "...":   "cut ***************...",
		"short " + secret[:11]:         "short 0123456789a",
		secret[:12] + secret:           "********************************",
	} {
		if got := blot(text, secret); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
	if got := blot("pass passed", "pass"); got != "**** ****ed" {
		t.Errorf("a short secret: %q", got)
	}
}

// A token that cannot be a header is refused by net/http, which must not show it.
func TestTokenThatIsNoHeaderValue(t *testing.T) {
	server := serve(t, answerWith(200, mediaJSON, emptyList))
	_, _, err := list[*corev1.Pod](t, server.URL, metav1.ListOptions{}, func(c *Config) { c.REST.BearerToken = plantedToken + "\n" })
	mustFail(t, err, reason.Transport)
	if strings.Contains(err.Error(), plantedToken) {
		t.Errorf("error is %q", err)
	}
}

// A proxy's credentials are in its URL.
func TestProxyCredentialsAreNotShown(t *testing.T) {
	refusing := serveRaw(t, func(*http.Request) []byte {
		return []byte("HTTP/1.1 407 planted\r\nContent-Length: 0\r\n\r\n")
	})
	for _, address := range []string{"127.0.0.1:1", strings.TrimPrefix(refusing.addr, "http://")} {
		_, _, err := list[*corev1.Pod](t, "https://api.example", metav1.ListOptions{}, func(c *Config) {
			c.REST.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: address, User: url.UserPassword("user", plantedToken)})
		})
		e := mustFail(t, err, reason.Transport)
		if strings.Contains(fmt.Sprintf("%+v %s", err, e.URL), plantedToken) {
			t.Errorf("error is %q", err)
		}
	}
	if n := len(refusing.seen()); n != 1 || refusing.seen()[0].Method != http.MethodConnect {
		t.Errorf("the proxy saw %d requests", n)
	}
}
