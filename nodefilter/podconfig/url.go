package podconfig

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nodewatch-go/nodewatch/nodefilter"
)

// Defaults of URLConfig, the kubelet's.
const (
	DefaultURLPeriod  = 20 * time.Second
	DefaultURLTimeout = 10 * time.Second
)

// Redirects says which redirects of a manifest URL are followed.
type Redirects string

// What a manifest says runs on the node, so that where it comes from matters as
// much as who sees the headers that were given for it. From https to http no
// redirect is followed.
const (
	// RedirectsSameHost follows redirects on the host and port of the URL, or
	// to https on its host; the default.
	RedirectsSameHost Redirects = "same-host"
	// RedirectsAnyHost follows all, to other hosts without any header and
	// without the user of the URL.
	RedirectsAnyHost Redirects = "any-host"
)

// URLConfig describes the source of a manifest URL (--manifest-url).
type URLConfig struct {
	// URL is of a Pod or a PodList, as YAML or JSON; http or https. Required. A
	// user and password in it are sent, and shown nowhere.
	URL string
	// Header is sent with each request (--manifest-url-header); see ParseURLHeaders.
	Header http.Header
	// Node is the node's name. Required.
	Node string
	// Period is how long to wait between two requests. Default 20 s.
	Period time.Duration
	// Timeout bounds one request, with its body. Default 10 s.
	Timeout time.Duration
	// Redirects is RedirectsSameHost unless set. Under KubeletCompatible
	// redirects are followed as net/http does it.
	Redirects Redirects
	// Behaviour is Improved unless set.
	Behaviour Behaviour
	// Transport makes the requests. Default: one of its own, as
	// http.DefaultTransport is.
	Transport http.RoundTripper
	// Logger is told of failures, the first three in a row at level Warn and
	// further ones at Debug, and of their end; nil discards.
	Logger *slog.Logger
}

func (c URLConfig) withDefaults() URLConfig {
	if c.Period == 0 {
		c.Period = DefaultURLPeriod
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultURLTimeout
	}
	if c.Redirects == "" {
		c.Redirects = RedirectsSameHost
	}
	if c.Behaviour == "" {
		c.Behaviour = Improved
	}
	return c
}

func (c URLConfig) validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("podconfig.URLConfig."+format, args...))
	}
	if u, err := url.Parse(c.URL); err != nil {
		// The error of url.Parse has the text, and that may have a password.
		bad("URL is not a URL: use one such as https://example.com/pods.yaml")
	} else if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		bad("URL has the scheme %q and the host %q: use one such as https://example.com/pods.yaml", u.Scheme, u.Host)
	}
	if err := nodefilter.ValidateNodeName(c.Node); err != nil {
		bad("Node: %w", err)
	}
	for name, values := range c.Header {
		for _, v := range values {
			if err := validateHeader(name, v); err != nil {
				bad("Header: %w", err)
			}
		}
	}
	if c.Period < 0 {
		bad("Period is %v: use a positive time, or 0 for %v", c.Period, DefaultURLPeriod)
	}
	if c.Timeout < 0 {
		bad("Timeout is %v: use a positive time, or 0 for %v", c.Timeout, DefaultURLTimeout)
	}
	if c.Redirects != RedirectsSameHost && c.Redirects != RedirectsAnyHost {
		bad("Redirects is %q: use %q or %q", c.Redirects, RedirectsSameHost, RedirectsAnyHost)
	}
	if err := c.Behaviour.validate(); err != nil {
		bad("Behaviour %w", err)
	}
	return errors.Join(errs...)
}

// ParseURLHeaders reads headers as --manifest-url-header gives them: name:value,
// split at the first colon, one a text. Space around both is dropped. A name
// that comes again has several values, in their order. Errors do not show a value.
//
// The kubelet's flag takes several headers in one text, separated by commas; here
// a comma is a part of the value.
func ParseURLHeaders(texts []string) (http.Header, error) {
	h := make(http.Header, len(texts))
	for i, text := range texts {
		name, value, ok := strings.Cut(text, ":")
		if !ok {
			return nil, fmt.Errorf("podconfig: header %d has no colon: write it as name:value", i+1)
		}
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if err := validateHeader(name, value); err != nil {
			return nil, fmt.Errorf("podconfig: header %d: %w", i+1, err)
		}
		h.Add(name, value)
	}
	return h, nil
}

// validateHeader checks what net/http would refuse at each request.
func validateHeader(name, value string) error {
	for _, r := range name {
		// RFC 9110, 5.6.2.
		if !strings.ContainsRune("!#$%&'*+-.^_`|~", r) && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
			return fmt.Errorf("%q is not a name of a header", shorten(name))
		}
	}
	if name == "" {
		return errors.New("the name is empty: write it as name:value")
	}
	if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		return fmt.Errorf("the value of %s has a control character", name)
	}
	return nil
}

// URL is the source of a manifest URL: static pods.
//
// A pod is what the URL said last that made sense. An answer that is no manifest
// changes nothing. Of a PodList with an invalid pod the others are taken, and that
// one keeps its last good version; under KubeletCompatible the whole list is
// refused. An empty answer is an error, while a PodList without items is none
// and removes all pods.
//
// A pod whose manifest is edited keeps its UID as long as each good answer has its name and
// namespace, as Files describes it; one that leaves and comes back is another pod.
//
// An answer is asked for with the ETag and Last-Modified of the one before. Only a
// whole answer with status 200, or a 304 to such a request, is a success.
type URL struct {
	cfg URLConfig
	*ledger
	ran atomic.Bool
	// place is the URL as it is shown: without user, password and query.
	place string
	// Only Run's goroutine touches these.
	fetcher  *urlFetcher
	content  urlContent
	diff     differ
	failures int // in a row
}

// NewURL returns a URL source that has not started. Errors are those of the
// configuration; no request is made yet.
func NewURL(c URLConfig) (*URL, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	parsed, err := url.Parse(c.URL)
	if err != nil {
		return nil, err
	}
	u := &URL{cfg: c, ledger: newLedger(c.Logger, HTTPSource), place: showURL(parsed), fetcher: newURLFetcher(c, parsed)}
	where := *parsed
	where.User = nil
	u.content = urlContent{
		parser: manifestParser{c.Behaviour},
		static: staticPods{source: HTTPSource, node: c.Node, behaviour: c.Behaviour},
		where:  where.String(), place: u.place, ledger: u.ledger,
	}
	if c.Behaviour == KubeletCompatible {
		u.content.where = c.URL // as it is in the kubelet's UIDs
	}
	return u, nil
}

// showURL is a URL without what may be secret.
func showURL(u *url.URL) string {
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	text := shown.String()
	if u.RawQuery != "" {
		text += "?..."
	}
	return text
}

// Source is HTTPSource.
func (u *URL) Source() Source { return HTTPSource }

// Status is what the source knows of itself. The place of an error is the URL
// without user, password and query, followed by items[N] for one of a list.
func (u *URL) Status() SourceStatus { return u.snapshot() }

// Run asks for the manifest and tells its pods until ctx ends. It is not Seen
// until the first good answer.
func (u *URL) Run(ctx context.Context, tell func(Change)) error {
	if u.ran.Swap(true) {
		return ErrAlreadyRun
	}
	defer u.fetcher.close()
	for {
		err := u.once(ctx, tell)
		if ctx.Err() != nil {
			return nil
		}
		u.report(ctx, err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(u.cfg.Period):
		}
	}
}

// once makes one request and tells what is new.
func (u *URL) once(ctx context.Context, tell func(Change)) error {
	answer, err := u.fetcher.fetch(ctx)
	if err != nil {
		return err
	}
	if answer.unchanged {
		u.content.again()
		return nil
	}
	if len(answer.body) == 0 && u.cfg.Behaviour == KubeletCompatible {
		// The kubelet says an error, and that there are no pods.
		u.content.forget()
		u.diff.tell(nil, u.ledger, tell)
		return errManifestEmpty
	}
	pods, err := u.content.read(answer.body)
	if err != nil {
		if u.cfg.Behaviour == KubeletCompatible {
			// The kubelet remembers the answer that it refused, and the one before it is new again.
			u.content.used = false
			u.fetcher.accept(urlAnswer{})
		}
		return err
	}
	u.fetcher.accept(answer)
	u.diff.tell(pods, u.ledger, tell)
	return nil
}

// report says how a request went: the first three failures in a row aloud.
func (u *URL) report(ctx context.Context, err error) {
	if err == nil {
		if u.failures > 0 {
			u.failures = 0
			u.mend(u.place)
		}
		return
	}
	u.failures++
	u.note(u.place, err.Error())
	level, hint := slog.LevelWarn, ""
	if u.failures == 3 {
		hint = "further ones are logged at level debug"
	} else if u.failures > 3 {
		level = slog.LevelDebug
	}
	u.log.Log(ctx, level, "manifest URL cannot be used", "where", u.place, "err", err.Error(), "failures", u.failures, "note", hint)
}

var _ Producer = (*URL)(nil)
