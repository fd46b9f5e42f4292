package listwatch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/internal/gzipstream"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// Limits of what is read, and shown, of an answer that is not what was asked for.
const (
	// MaxErrorBodyBytes bounds what is read of the body of an answer that is
	// not a 200, compressed and decompressed.
	MaxErrorBodyBytes = 64 << 10

	// MaxErrorBodyWait bounds how long such a body is read. It comes with the header, or
	// something on the way does not end it; what it says is no reason to put off the next
	// request for longer. A shorter RequestTimeout (of a LIST) or HeaderTimeout bounds it too.
	MaxErrorBodyWait = 5 * time.Second

	maxSnippet = 256
)

// refusal is the Error of an answer that is not a 200.
func (lw *ListerWatcher[T]) refusal(ctx context.Context, req *request, ans *answer) *Error {
	body := lw.errorBody(ans)
	if ctx.Err() != nil {
		return lw.interrupted(ctx, req, ans.attempt, nil)
	}
	s := parseStatus(body)
	e := lw.fault(req, ans.attempt, classify(ans.StatusCode, s), nil)
	e.Code = ans.StatusCode
	e.APIStatus = s
	e.RetryAfter = max(
		parseRetryAfter(ans.Header.Get("Retry-After"), ans.Header.Get("Date"), time.Now()),
		statusRetryAfter(s))
	if s == nil {
		if text := snippet(body, ans.Header.Get("Content-Type")); text != "" {
			e.Err = errors.New(text)
		}
		if ans.StatusCode == http.StatusNotFound {
			// An API server says in a Status what it does not find.
			e.hint = fmt.Sprintf("is %s://%s a Kubernetes API server?", req.url.Scheme, req.url.Host)
		}
		return e
	}
	s.Message = ans.redact(s.Message)
	e.User = refusedUser(e.Reason, s)
	e.hint = nodeHint(lw.config.Resource.Resource, e.User, req.url.Query().Get("fieldSelector"))
	return e
}

// errorBody returns the beginning of a body that is to be shown or parsed,
// without the request's credentials. A body that stalls or is damaged gives what
// came of it.
func (lw *ListerWatcher[T]) errorBody(ans *answer) []byte {
	ans.wait("the body of an error", min(ans.limits.header, MaxErrorBodyWait))
	raw, _ := io.ReadAll(io.LimitReader(ans.Body, MaxErrorBodyBytes))
	ans.rest()
	if isGzip(ans) {
		raw, _ = io.ReadAll(io.LimitReader(gzipstream.NewReader(bytes.NewReader(raw)), MaxErrorBodyBytes))
	}
	return []byte(ans.redact(string(raw)))
}

// parseStatus returns the Status that body is, in JSON or protobuf whatever
// its content type says, or nil.
func parseStatus(body []byte) *metav1.Status {
	enc := decode.JSON
	if bytes.HasPrefix(body, []byte(decode.Magic)) {
		enc = decode.Protobuf
	}
	s, err := decode.Status(enc, body)
	if err != nil {
		return nil
	}
	return s
}

// notWhatWasAsked is the Error of a 200 that is no list and no watch at all.
func (lw *ListerWatcher[T]) notWhatWasAsked(ctx context.Context, req *request, ans *answer, err error) *Error {
	if text := snippet(lw.errorBody(ans), ans.Header.Get("Content-Type")); text != "" {
		err = fmt.Errorf("%w: %s", err, text)
	}
	if ctx.Err() != nil {
		return lw.interrupted(ctx, req, ans.attempt, nil)
	}
	fault := lw.fault(req, ans.attempt, reason.Decode, err)
	fault.Code = ans.StatusCode
	return fault
}

// snippet is a readable piece of a body that is not a Status, for an error's text.
func snippet(body []byte, contentType string) string {
	media, _, _ := mime.ParseMediaType(contentType)
	text := string(body)
	if media == "text/html" || strings.HasPrefix(http.DetectContentType(body), "text/html") {
		text = stripTags(text)
	}
	return oneLine(text, maxSnippet)
}

// stripTags returns what a browser would show of a page, near enough for a line of text.
func stripTags(page string) string {
	var b strings.Builder
	for {
		text, rest, found := strings.Cut(page, "<")
		b.WriteString(text)
		if !found {
			return b.String()
		}
		b.WriteByte(' ')
		skipTo := ">"
		for _, element := range []string{"script", "style"} {
			if len(rest) >= len(element) && strings.EqualFold(rest[:len(element)], element) {
				skipTo = "</" + rest[:len(element)]
			}
		}
		_, page, found = strings.Cut(rest, skipTo)
		if !found {
			return b.String()
		}
		if skipTo != ">" {
			_, page, _ = strings.Cut(page, ">")
		}
	}
}
