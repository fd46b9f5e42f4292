package listwatch

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// Limits of what a server may send, and of connections.
const (
	// MaxHeaderBytes bounds an answer's header. An API server sends about 500
	// bytes, and at most 4 KiB of warnings.
	MaxHeaderBytes = 64 << 10

	// readBufferBytes and writeBufferBytes are what each connection holds while it waits; see readAhead for
	// busy ones. A request with a token of a service account is two writes.
	readBufferBytes  = 1 << 10
	writeBufferBytes = 1 << 10
	idleConnTimeout  = 30 * time.Second
	maxCAFileBytes   = 4 << 20
)

// newDialer makes connections with TCP keep-alive: three probes after 15 s of
// silence, 5 s apart. A peer that vanished without a FIN is known dead after
// about 30 s, in the middle of a quiet watch too.
func newDialer() *net.Dialer {
	return &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}}
}

// roundTrippers is what one ListerWatcher sends its requests through.
type roundTrippers struct {
	http.RoundTripper            // with client-go's wrappers: credentials, impersonation, user agent
	base              *baseTrips // without
}

// newRoundTrippers builds the transport of c, which has been validated.
func newRoundTrippers(c Config) (*roundTrippers, error) {
	cfg := rest.CopyConfig(c.REST)
	if cfg.UserAgent == "" {
		cfg.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	dial := cfg.Dial
	if dial == nil {
		dial = newDialer().DialContext
	}
	// Given to client-go as its Dial, so that an exec plugin's connection
	// tracker wraps it and can close connections whose certificate rotated.
	cfg.Dial = attemptDialer(dial, c.DialTimeout)
	tc, err := cfg.TransportConfig()
	if err != nil {
		return nil, fmt.Errorf("listwatch.Config.REST: %w", err)
	}
	if err := useTokenFile(tc); err != nil {
		return nil, fmt.Errorf("listwatch.Config.REST: %w", err)
	}

	base := &baseTrips{logger: c.Logger}
	if tc.Transport != nil {
		if tc.HasCA() || tc.HasCertAuth() || tc.HasCertCallback() || tc.TLS.Insecure {
			return nil, errors.New("listwatch.Config.REST: Transport is set together with TLS options; put those into the Transport")
		}
		base.custom = tc.Transport
	} else if err := base.build(c, tc); err != nil {
		return nil, fmt.Errorf("listwatch.Config.REST: %w", err)
	}
	rt, err := transport.HTTPWrappersForConfig(tc, base)
	if err != nil {
		return nil, fmt.Errorf("listwatch.Config.REST: %w", err)
	}
	return &roundTrippers{RoundTripper: rt, base: base}, nil
}

// useTokenFile makes a token that the server refused be read again at once.
// client-go's own file reading waits for its minute to pass.
func useTokenFile(tc *transport.Config) error {
	if tc.BearerTokenFile == "" {
		return nil
	}
	source := transport.NewCachedFileTokenSource(tc.BearerTokenFile)
	if _, err := source.Token(); err != nil {
		if tc.BearerToken != "" {
			return nil // client-go's reading falls back to the token itself
		}
		return err
	}
	tc.BearerToken, tc.BearerTokenFile = "", ""
	tc.Wrap(transport.ResettableTokenSourceWrapTransport(source))
	return nil
}

// baseTrips is the innermost RoundTripper: the caller's own, or an
// *http.Transport that is replaced when the CA file changes.
type baseTrips struct {
	logger *slog.Logger
	custom http.RoundTripper

	// caFile "" is never looked at again.
	caFile string
	make   func(roots *x509.CertPool) *http.Transport

	mu      sync.Mutex // guards what follows
	caData  []byte
	current *http.Transport
}

// build makes the transport. tc is changed: its file names are loaded.
func (b *baseTrips) build(c Config, tc *transport.Config) error {
	caFromFile := tc.TLS.CAFile != "" && len(tc.TLS.CAData) == 0
	certFromFiles := tc.TLS.CertFile != "" && len(tc.TLS.CertData) == 0 && tc.TLS.KeyFile != "" && len(tc.TLS.KeyData) == 0
	tlsConfig, err := transport.TLSConfigFor(tc)
	if err != nil {
		if caFromFile && len(tc.TLS.CAData) > 0 && !x509.NewCertPool().AppendCertsFromPEM(tc.TLS.CAData) {
			err = fmt.Errorf("%s: %w", tc.TLS.CAFile, err) // client-go names a file only if it cannot be read
		}
		return err
	}
	if tlsConfig != nil && tlsConfig.RootCAs != nil {
		tlsConfig.RootCAs = samePool(tlsConfig.RootCAs, tc.TLS.CAData)
	}
	if tlsConfig == nil {
		tlsConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if certFromFiles {
		// Read at each handshake: those are rare, and the new pair is used by the next one.
		certFile, keyFile := tc.TLS.CertFile, tc.TLS.KeyFile
		tlsConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(certFile, keyFile)
			if err != nil {
				err = fmt.Errorf("client certificate %s with key %s: %w", certFile, keyFile, err)
			}
			return &pair, err
		}
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	tlsConfig.NextProtos = []string{"http/1.1"}
	if c.Protocol == HTTP2 {
		protocols.SetHTTP2(true)
		tlsConfig.NextProtos = []string{"h2", "http/1.1"}
	}
	proxy := tc.Proxy
	if proxy == nil {
		proxy = http.ProxyFromEnvironment
	}
	b.make = func(roots *x509.CertPool) *http.Transport {
		conf := tlsConfig
		if roots != conf.RootCAs {
			conf = conf.Clone()
			conf.RootCAs = roots
		}
		return &http.Transport{
			Proxy:           proxy,
			DialContext:     tc.DialHolder.Dial,
			TLSClientConfig: conf,
			// The attempt's own timer is first and knows its name; this one is
			// for a handshake that outlived its attempt.
			TLSHandshakeTimeout:    c.TLSHandshakeTimeout + time.Second,
			Protocols:              &protocols,
			HTTP2:                  &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second},
			DisableCompression:     true, // gzip is asked for and read here, member by member
			MaxResponseHeaderBytes: MaxHeaderBytes,
			ReadBufferSize:         readBufferBytes,
			WriteBufferSize:        writeBufferBytes,
			IdleConnTimeout:        idleConnTimeout,
		}
	}
	if caFromFile {
		b.caFile, b.caData = tc.TLS.CAFile, tc.TLS.CAData // TLSConfigFor loaded it
	}
	b.current = b.make(tlsConfig.RootCAs)
	return nil
}

// RoundTrip implements http.RoundTripper.
func (b *baseTrips) RoundTrip(req *http.Request) (*http.Response, error) {
	if a := attemptOf(req.Context()); a != nil {
		// All wrappers have had their say: these are the credentials that an
		// echo of this request would show.
		authorization := req.Header.Get("Authorization")
		if authorization != "" && authorization == a.refused {
			return nil, errRefused
		}
		a.setSecret(authorization)
	}
	if b.custom != nil {
		return b.custom.RoundTrip(req)
	}
	return b.transport().RoundTrip(req)
}

// transport returns the transport that trusts what the CA file says now. It
// reads the file for each request, on a kept connection too: a few KB for a LIST or a WATCH.
func (b *baseTrips) transport() *http.Transport {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.caFile == "" {
		return b.current
	}
	data, err := readBounded(b.caFile, maxCAFileBytes)
	if err != nil {
		b.logger.Warn("CA file cannot be read, going on with what it said before", "file", b.caFile, "err", err)
		return b.current
	}
	if bytes.Equal(data, b.caData) {
		return b.current
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(data) {
		b.logger.Warn("CA file has no certificate, going on with what it said before", "file", b.caFile)
		return b.current
	}
	old := b.current
	b.caData, b.current = data, b.make(samePool(roots, data))
	// Requests under way keep their connections; only idle ones go.
	old.CloseIdleConnections()
	return b.current
}

// closeIdle closes the connections that no request uses. Those of the
// caller's own Transport are the caller's.
func (b *baseTrips) closeIdle() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.current != nil {
		b.current.CloseIdleConnections()
	}
}

func readBounded(file string, limit int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("larger than %d bytes", limit)
	}
	return data, err
}

// attemptDialer dials for the attempt that the context belongs to.
//
// net/http lets a dial go on when its request was cancelled, for the sake of a
// later request. Here an attempt that ended takes its half-made connection
// with it, so that nothing of it stays behind.
//
// Connections are read ahead.
func attemptDialer(dial func(context.Context, string, string) (net.Conn, error), limit time.Duration) func(context.Context, string, string) (net.Conn, error) {
	buffers := newAheadBuffers()
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		timeout := &TimeoutError{Waiting: "a connection", Limit: limit}
		ctx, cancel := context.WithTimeoutCause(ctx, limit, timeout)
		defer cancel()
		a := attemptOf(ctx)
		if a != nil {
			stop := context.AfterFunc(a.ctx, cancel)
			defer stop()
		}
		conn, err := dial(ctx, network, address)
		if err != nil {
			if cause := context.Cause(ctx); errors.Is(cause, timeout) {
				return nil, timeout
			}
			return nil, err
		}
		if a != nil {
			a.own(conn)
		}
		return newReadAhead(conn, buffers), nil
	}
}
