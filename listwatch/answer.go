package listwatch

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/internal/ctxerr"
	"github.com/nodewatch-go/nodewatch/internal/gzipstream"
	"github.com/nodewatch-go/nodewatch/internal/origin"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// MaxRedirects is how many redirects of one request are followed, all of them
// to the scheme and host that was asked.
const MaxRedirects = 3

// A request is one call of List or Watch: what its errors have in common.
type request struct {
	verb string
	opts metav1.ListOptions
	url  *url.URL

	// refused is the Authorization header that a server has refused in this call.
	refused string
}

// An answer is a response whose body has not been read. Whoever has one calls
// close, also after reading all of it.
type answer struct {
	*http.Response
	*attempt
}

func (a *answer) close() {
	a.attempt.end(context.Canceled)
	a.Body.Close()
}

// ask sends the request and returns the answer, which is a 200. It makes
// more than one HTTP request only for a redirect, for the second choice of
// encoding and for credentials that were renewed.
func (lw *ListerWatcher[T]) ask(ctx context.Context, verb string, opts metav1.ListOptions) (*answer, *request, error) {
	u, err := lw.requestURL(verb, opts)
	req := &request{verb: verb, opts: opts, url: lw.url}
	if err != nil {
		return nil, req, lw.fault(req, nil, reason.Rejected, err)
	}
	req.url = u
	jsonOnly := lw.jsonOnly.Load()
	ans, err := lw.authorized(ctx, req, lw.accept(verb, jsonOnly))
	if err != nil {
		return nil, req, err
	}
	if !jsonOnly && lw.offersBoth() && refusesEncoding(ans.StatusCode) {
		ans.close()
		if ans, err = lw.authorized(ctx, req, lw.accept(verb, true)); err != nil {
			return nil, req, err
		}
		if !refusesEncoding(ans.StatusCode) {
			lw.config.Logger.Info("server has no protobuf for this resource, asking for JSON from now on", "resource", lw.config.Resource.String())
			lw.jsonOnly.Store(true)
		}
	}
	if ans.StatusCode != http.StatusOK {
		defer ans.close()
		return nil, req, lw.refusal(ctx, req, ans)
	}
	return ans, req, nil
}

func refusesEncoding(code int) bool {
	return code == http.StatusNotAcceptable || code == http.StatusUnsupportedMediaType
}

// errRefused is for credentials that the server has refused already: they are not sent again.
var errRefused = errors.New("the credentials are those that the server refused")

// authorized is follow, and once more where the server refused the credentials (401) and there are
// others now: the refusal made client-go read the token's file again, or ask the plugin. Else
// whoever retries would wait as for a refusal that only a human can lift.
func (lw *ListerWatcher[T]) authorized(ctx context.Context, req *request, accept string) (*answer, error) {
	ans, err := lw.follow(ctx, req, accept)
	if err != nil || ans.StatusCode != http.StatusUnauthorized {
		return ans, err
	}
	if req.refused = ans.authorization(); req.refused == "" {
		return ans, nil
	}
	again, err := lw.follow(ctx, req, accept)
	if err != nil {
		return ans, nil // it stands: there is nothing new, or that did not get through
	}
	ans.close()
	return again, nil
}

// follow sends the request, and again where the server redirects it to itself.
// A redirect to another scheme or host is an error: client-go's wrappers put
// credentials on each request, whoever it goes to.
func (lw *ListerWatcher[T]) follow(ctx context.Context, req *request, accept string) (*answer, error) {
	target := req.url
	for redirects := 0; ; redirects++ {
		ans, err := lw.send(ctx, req, target, accept)
		if err != nil {
			return nil, err
		}
		switch ans.StatusCode {
		case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		default:
			return ans, nil
		}
		ans.close()
		next, err := target.Parse(ans.Header.Get("Location"))
		switch {
		case err != nil || ans.Header.Get("Location") == "":
			err = errors.New("redirect without a usable Location")
		case !origin.Same(lw.url, next) || next.User != nil:
			// Only where it points to: a Location's path and query may hold secrets.
			err = fmt.Errorf("redirect to %s refused: credentials go only to %s",
				oneLine(ans.redact(next.Scheme+"://"+next.Host), maxMessage), lw.url.Scheme+"://"+lw.url.Host)
		case redirects == MaxRedirects:
			err = fmt.Errorf("more than %d redirects", MaxRedirects)
		default:
			target = next
			continue
		}
		fault := lw.fault(req, ans.attempt, reason.Rejected, err)
		fault.Code = ans.StatusCode
		return nil, fault
	}
}

// send makes one HTTP request and waits for the header of its answer.
func (lw *ListerWatcher[T]) send(ctx context.Context, req *request, target *url.URL, accept string) (*answer, error) {
	if ctx.Err() != nil {
		return nil, lw.interrupted(ctx, req, nil, nil)
	}
	l := limits{dial: lw.config.DialTimeout, handshake: lw.config.TLSHandshakeTimeout, header: lw.config.HeaderTimeout}
	if req.verb == verbList {
		most := lw.config.RequestTimeout
		l = limits{dial: min(l.dial, most), handshake: min(l.handshake, most), header: min(l.header, most)}
	}
	a, sendCtx := newAttempt(ctx, l)
	a.refused = req.refused
	hr := (&http.Request{
		Method: http.MethodGet, URL: target, Host: target.Host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Accept": {accept}},
	}).WithContext(sendCtx)
	if lw.gzip {
		hr.Header.Set("Accept-Encoding", "gzip")
	}

	type result struct {
		resp *http.Response
		err  error
	}
	// In a goroutine of its own: an exec plugin or a RoundTripper of the
	// caller's may not look at the context.
	results := make(chan result)
	go func() {
		resp, err := lw.trips.RoundTrip(hr)
		select {
		case results <- result{resp, err}:
		case <-a.ctx.Done():
			if err == nil {
				resp.Body.Close()
			}
		}
	}()
	start := time.Now()
	var res result
	select {
	case res = <-results:
	case <-a.ctx.Done():
		res.err = context.Cause(a.ctx)
	}
	a.rest()
	if res.err != nil {
		defer a.end(context.Canceled)
		if plugin := lw.config.REST.ExecProvider; plugin != nil && strings.HasPrefix(res.err.Error(), "getting credentials: ") {
			// client-go names it in some of these errors.
			res.err = fmt.Errorf("credential plugin %s: %w", plugin.Command, res.err)
		}
		err := lw.interrupted(ctx, req, a, res.err)
		if errors.Is(res.err, errRefused) {
			return nil, err // nothing was sent
		}
		lw.config.Logger.Debug("no answer", "verb", req.verb, "url", publicURL(req.url), "reason", string(err.Reason), "err", err.Error())
		return nil, err
	}
	lw.config.Logger.Debug("answer", "verb", req.verb, "url", publicURL(req.url), "status", res.resp.StatusCode,
		"contentType", a.redact(res.resp.Header.Get("Content-Type")), "after", time.Since(start))
	return &answer{res.resp, a}, nil
}

// interrupted is the fault of a request or a body that err ended: the caller,
// one of our limits, or the transport. a is nil before there is an attempt.
func (lw *ListerWatcher[T]) interrupted(ctx context.Context, req *request, a *attempt, err error) *Error {
	var timeout *TimeoutError
	if a != nil && errors.As(context.Cause(a.ctx), &timeout) || errors.As(err, &timeout) {
		return lw.fault(req, a, reason.Deadline, timeout)
	}
	if ctx.Err() != nil {
		return lw.fault(req, a, reason.Stopped, ctxerr.Of(ctx))
	}
	fault := lw.fault(req, a, reason.Transport, err)
	fault.Unsent = a != nil && a.cut(err)
	return fault
}

// fault returns an Error of req. All errors are made here, where the attempt's
// credentials are taken out of them; a is nil where there was none.
func (lw *ListerWatcher[T]) fault(req *request, a *attempt, r reason.Reason, err error) *Error {
	if a != nil {
		err = a.redactError(err)
	}
	return &Error{
		Reason:   r,
		Verb:     req.verb,
		Resource: lw.config.Resource,
		Method:   http.MethodGet,
		URL:      publicURL(req.url),
		Continue: req.opts.Continue != "",
		Err:      err,
	}
}

// encoding returns how the answer's body is to be read.
func (lw *ListerWatcher[T]) encoding(ans *answer) (decode.Encoding, error) {
	header := contentType(ans)
	// What is shown of a header is cut to a length, so credentials are taken out before.
	shown := func(value string) string { return oneLine(ans.redact(value), 128) }
	enc, err := decode.EncodingOf(header)
	if err != nil {
		return 0, fmt.Errorf("content type %q is neither JSON nor protobuf", shown(header))
	}
	if _, params, _ := mime.ParseMediaType(header); params["as"] == "Table" {
		return 0, errors.New("the server answered a Table, which has no objects")
	}
	if !slices.Contains(lw.decoder.Encodings(), enc) {
		return 0, fmt.Errorf("content type %q: the type has no %s form", shown(header), enc)
	}
	coding := ans.Header.Get("Content-Encoding")
	if coding == "" || isGzip(ans) || strings.EqualFold(coding, "identity") {
		return enc, nil
	}
	return 0, fmt.Errorf("content encoding %q is not gzip", shown(coding))
}

// contentType is the answer's; without one JSON is assumed, as a body that is not
// JSON shows itself at once.
func contentType(ans *answer) string {
	if header := ans.Header.Get("Content-Type"); header != "" {
		return header
	}
	return mediaJSON
}

// isGzip reports whether the body is gzip.
func isGzip(ans *answer) bool { return gzipstream.IsName(ans.Header.Get("Content-Encoding")) }
