package loopback

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"k8s.io/client-go/rest"

	"github.com/nodewatch-go/nodewatch/bench/specimen"
)

// Discard reads a list and then a watch, and does nothing with them: what the transport
// and the server allow.
func Discard(ctx context.Context, at Target) (*Session, error) {
	web, err := bareClient(at)
	if err != nil {
		return nil, err
	}
	s := &Session{Applied: NewCounter(), InBytes: true}
	stop := Run(ctx, func(ctx context.Context) error {
		body, err := open(ctx, web, at, "watch=1")
		if err != nil {
			return err
		}
		defer body.Close()
		_, err = io.Copy(countingWriter{s.Applied}, body)
		return err
	})
	s.Stop = func() error {
		defer web.CloseIdleConnections()
		return stop()
	}
	body, err := open(ctx, web, at, "")
	if err == nil {
		_, err = io.Copy(io.Discard, body)
		err = errors.Join(err, body.Close())
	}
	if err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// bareClient has the transport that nodewatch makes for the link.
func bareClient(at Target) (*http.Client, error) {
	tls, err := rest.TLSConfigFor(&rest.Config{Host: at.URL, TLSClientConfig: rest.TLSClientConfig{CAData: at.CA}})
	if err != nil {
		return nil, err
	}
	var p http.Protocols
	p.SetHTTP1(at.Link != TLSHTTP2)
	p.SetHTTP2(at.Link == TLSHTTP2)
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: tls, Protocols: &p, ReadBufferSize: 32 << 10, DisableCompression: at.Link != Gzip,
	}}, nil
}

func open(ctx context.Context, web *http.Client, at Target, query string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.URL+"/api/v1/namespaces/"+specimen.Namespace+"/pods?"+query, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", at.MediaType)
	resp, err := web.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("the server answers %s", resp.Status), resp.Body.Close())
	}
	return resp.Body, nil
}

type countingWriter struct{ c *Counter }

func (w countingWriter) Write(p []byte) (int, error) {
	w.c.Add(int64(len(p)))
	return len(p), nil
}

var _ Start = Discard
