package podconfig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/nodewatch-go/nodewatch/internal/origin"
)

// urlFetcher makes the requests of one URL.
type urlFetcher struct {
	url       *url.URL
	header    http.Header
	timeout   time.Duration
	client    http.Client
	own       *http.Transport // the one to close; nil where the caller gave one
	behaviour Behaviour
	redirects Redirects

	// etag and modified are of the last answer that was accepted.
	etag, modified string
}

// urlAnswer is an answer that is whole.
type urlAnswer struct {
	body           []byte
	unchanged      bool // 304: what was accepted last is still so
	etag, modified string
}

func newURLFetcher(c URLConfig, u *url.URL) *urlFetcher {
	f := &urlFetcher{url: u, header: c.Header.Clone(), timeout: c.Timeout, behaviour: c.Behaviour, redirects: c.Redirects}
	f.client.Transport = c.Transport
	if c.Transport == nil {
		if standard, ok := http.DefaultTransport.(*http.Transport); ok {
			f.own = standard.Clone()
		} else {
			f.own = &http.Transport{Proxy: http.ProxyFromEnvironment}
		}
		f.client.Transport = f.own
	}
	f.client.CheckRedirect = f.checkRedirect
	return f
}

// close ends the connections.
func (f *urlFetcher) close() {
	if f.own != nil {
		f.own.CloseIdleConnections()
	}
}

// accept makes the next requests conditional on this answer being out of date. An
// answer that was no good is not accepted: the server must not say "unchanged" of it.
func (f *urlFetcher) accept(a urlAnswer) { f.etag, f.modified = a.etag, a.modified }

// fetch makes one request. Its errors do not have the URL in them, nor what was sent.
func (f *urlFetcher) fetch(ctx context.Context) (urlAnswer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, f.timeout, fmt.Errorf("no whole answer within %v", f.timeout))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url.String(), nil)
	if err != nil {
		return urlAnswer{}, plainURLError(ctx, err)
	}
	// Of its own: net/http may keep the request's for a redirect.
	if f.header != nil {
		req.Header = f.header.Clone()
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host // net/http does not take it from the headers
	}
	conditional := f.etag != "" || f.modified != ""
	if f.etag != "" {
		req.Header.Set("If-None-Match", f.etag)
	}
	if f.modified != "" {
		req.Header.Set("If-Modified-Since", f.modified)
	}
	resp, err := f.client.Do(req)
	if err != nil {
		return urlAnswer{}, plainURLError(ctx, err)
	}
	defer resp.Body.Close()
	switch {
	// A 304 that nobody asked for says nothing about what is known here.
	case resp.StatusCode == http.StatusNotModified && conditional:
		return urlAnswer{unchanged: true}, nil
	case resp.StatusCode != http.StatusOK:
		return urlAnswer{}, fmt.Errorf("the server answers %s", shorten(resp.Status))
	// What is announced need not be read to be refused; what is not is counted.
	case resp.ContentLength > MaxManifestBytes:
		return urlAnswer{}, errManifestTooLarge
	}
	body, err := readManifest(resp.Body)
	if err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("the answer ends before its announced end")
		}
		return urlAnswer{}, plainURLError(ctx, err)
	}
	return urlAnswer{body: body, etag: resp.Header.Get("ETag"), modified: resp.Header.Get("Last-Modified")}, nil
}

// plainURLError is an error without the URL, which may have secrets; where the time
// was up it says so.
func plainURLError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// maxRedirects is net/http's limit.
const maxRedirects = 10

// checkRedirect decides on one redirect. req is what would be sent: net/http has copied
// the headers of the first request into it, but for some of them where the domain
// is another one. The headers given for a manifest may be secret whatever their names are.
func (f *urlFetcher) checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) >= maxRedirects {
		return fmt.Errorf("more than %d redirects", maxRedirects)
	}
	if f.behaviour == KubeletCompatible {
		return nil
	}
	last := via[len(via)-1].URL
	switch {
	case req.URL.Scheme != "https" && (last.Scheme == "https" || req.URL.Scheme != "http"):
		return fmt.Errorf("a redirect from %s to %s is not followed", last.Scheme, shorten(req.URL.Scheme))
	case sameHost(f.url, req.URL):
		return nil
	case f.redirects != RedirectsAnyHost:
		return fmt.Errorf("a redirect to another host, %s, is not followed: give the URL there, or allow it", shorten(req.URL.Host))
	}
	clear(req.Header)
	return nil
}

// sameHost reports whether the second URL is on the host and port of the first, or on
// its host by https.
func sameHost(a, b *url.URL) bool {
	return origin.Same(a, b) || origin.SameHost(a, b) &&
		a.Scheme == "http" && origin.Port(a) == "80" && b.Scheme == "https" && origin.Port(b) == "443"
}
