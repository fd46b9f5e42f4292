package listwatch

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/nodewatch-go/nodewatch/reflector/reason"
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t testing.TB, name string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// issue returns a certificate for 127.0.0.1 and for a client, in PEM.
func (a *authority) issue(t testing.TB, name string) (certPEM, keyPEM []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw})
}

// serveTLS serves handler with a certificate that can be exchanged.
func serveTLS(t testing.TB, handler http.HandlerFunc, conf *tls.Config) (*httptest.Server, func(certPEM, keyPEM []byte)) {
	t.Helper()
	var current atomic.Pointer[tls.Certificate]
	s := httptest.NewUnstartedServer(handler)
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that fail on purpose
	conf.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		c := conf.Clone()
		c.GetConfigForClient = nil
		c.NextProtos = []string{"h2", "http/1.1"}
		c.Certificates = []tls.Certificate{*current.Load()}
		return c, nil
	}
	s.TLS = conf
	s.EnableHTTP2 = true
	use := func(certPEM, keyPEM []byte) {
		pair, err := tls.X509KeyPair(certPEM, keyPEM)
		if err != nil {
			t.Fatal(err)
		}
		current.Store(&pair)
	}
	bootCert, bootKey := newAuthority(t, "boot").issue(t, "boot")
	use(bootCert, bootKey)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s, use
}

func write(t testing.TB, file string, data []byte) string {
	t.Helper()
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// N4: "the CA bundle rotates while watching: the next reconnect trusts the new one"
func TestRotatedCAIsTrustedAtTheNextRequest(t *testing.T) {
	first, second := newAuthority(t, "first"), newAuthority(t, "second")
	server, use := serveTLS(t, answerWith(200, mediaJSON, emptyList), &tls.Config{})
	server.Config.SetKeepAlivesEnabled(false)
	use(first.issue(t, "server"))
	caFile := write(t, filepath.Join(t.TempDir(), "ca.pem"), first.pem)
	var logs bytes.Buffer
	lw := newFor[*corev1.Pod](t, server.URL, func(c *Config) {
		c.REST.CAFile = caFile
		c.Logger = slog.New(slog.NewTextHandler(&logs, nil))
	})
	try := func() error {
		_, err := lw.List(t.Context(), metav1.ListOptions{}, &recorder[*corev1.Pod]{})
		return err
	}
	if err := try(); err != nil {
		t.Fatalf("with the first CA: %v", err)
	}
	use(second.issue(t, "server"))
	if err := try(); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Fatalf("a server with a certificate of an unknown CA: %v", err)
	}
	write(t, caFile, second.pem)
	if err := try(); err != nil {
		t.Fatalf("after the CA file changed: %v", err)
	}
	// A file that is half written, or gone, changes nothing.
	write(t, caFile, second.pem[:40])
	if err := try(); err != nil {
		t.Errorf("with a damaged CA file: %v", err)
	}
	if err := os.Remove(caFile); err != nil {
		t.Fatal(err)
	}
	if err := try(); err != nil {
		t.Errorf("without the CA file: %v", err)
	}
	for _, says := range []string{"CA file has no certificate", "CA file cannot be read"} {
		if !strings.Contains(logs.String(), says) {
			t.Errorf("no log line says %q: %s", says, logs.String())
		}
	}
}

func TestRotatedClientCertificateIsUsedAtTheNextHandshake(t *testing.T) {
	ca := newAuthority(t, "ca")
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	var names []string
	server, use := serveTLS(t, func(w http.ResponseWriter, r *http.Request) {
		names = append(names, r.TLS.PeerCertificates[0].Subject.CommonName)
		answerWith(200, mediaJSON, emptyList)(w, r)
	}, &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots})
	server.Config.SetKeepAlivesEnabled(false)
	use(ca.issue(t, "server"))
	dir := t.TempDir()
	certPEM, keyPEM := ca.issue(t, "first")
	certFile, keyFile := write(t, filepath.Join(dir, "tls.crt"), certPEM), write(t, filepath.Join(dir, "tls.key"), keyPEM)
	lw := newFor[*corev1.Pod](t, server.URL, func(c *Config) {
		c.REST.CAData, c.REST.CertFile, c.REST.KeyFile = ca.pem, certFile, keyFile
	})
	for _, name := range []string{"first", "second"} {
		certPEM, keyPEM := ca.issue(t, name)
		write(t, certFile, certPEM)
		write(t, keyFile, keyPEM)
		if _, err := lw.List(t.Context(), metav1.ListOptions{}, &recorder[*corev1.Pod]{}); err != nil {
			t.Fatal(err)
		}
	}
	diff(t, "client names", names, []string{"first", "second"})
	// In the middle of a rotation the two do not fit.
	_, keyPEM = ca.issue(t, "third")
	write(t, keyFile, keyPEM)
	_, err := lw.List(t.Context(), metav1.ListOptions{}, &recorder[*corev1.Pod]{})
	if mustFail(t, err, reason.Transport); !strings.Contains(err.Error(), "client certificate "+certFile+" with key "+keyFile+": ") {
		t.Errorf("error is %v", err)
	}
}

// "HTTP/1.1, forced by ALPN", and HTTP/2 where it is asked for.
func TestProtocol(t *testing.T) {
	ca := newAuthority(t, "ca")
	for protocol, want := range map[Protocol]string{HTTP1: "HTTP/1.1", HTTP2: "HTTP/2.0"} {
		var got string
		server, use := serveTLS(t, func(w http.ResponseWriter, r *http.Request) {
			got = r.Proto
			answerWith(200, mediaJSON, emptyList)(w, r)
		}, &tls.Config{})
		use(ca.issue(t, "server"))
		_, _, err := list[*corev1.Pod](t, server.URL, metav1.ListOptions{}, func(c *Config) {
			c.Protocol = protocol
			c.REST.CAData = ca.pem
		})
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("protocol is %s, want %s", got, want)
		}
	}
}

// N2: a token that the server refused is read again at once, and sent at once if it is another one. One
// that it refused is not sent twice.
func TestTokenFileIsReadAgainAfter401(t *testing.T) {
	plugin := func(c *Config, file string) {
		c.REST.ExecProvider = &clientcmdapi.ExecConfig{
			APIVersion: "client.authentication.k8s.io/v1", Command: "sh", InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
			Args: []string{"-c", `read -r token <"$0"
				echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"'$token'"}}'`, file},
		}
	}
	for name, credentials := range map[string]func(*Config, string){
		"file": func(c *Config, file string) { c.REST.BearerTokenFile = file }, "plugin": plugin,
	} {
		t.Run(name, func(t *testing.T) {
			file := write(t, filepath.Join(t.TempDir(), "token"), []byte("first\n"))
			var valid atomic.Value
			valid.Store("first")
			server := note(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "Bearer "+valid.Load().(string) {
					answerWith(401, mediaJSON, `{"kind":"Status","message":"Unauthorized","code":401}`)(w, r)
					return
				}
				answerWith(200, mediaJSON, emptyList)(w, r)
			})
			lw := newFor[*corev1.Pod](t, server.URL, func(c *Config) { credentials(c, file) })
			asks := func(verb string) error {
				if verb == verbList {
					_, err := lw.List(t.Context(), metav1.ListOptions{}, &recorder[*corev1.Pod]{})
					return err
				}
				stream, err := lw.Watch(t.Context(), metav1.ListOptions{})
				if err == nil {
					stream.Stop()
				}
				return err
			}
			sent := 0
			var tokens strings.Builder
			for _, step := range []struct{ verb, file, valid string }{
				{verbList, "first", "first"}, {verbList, "second", "second"}, {verbWatch, "third", "third"},
				{verbList, "third", "fourth"}, // the new one is not there yet
				{verbList, "fourth", "fourth"},
				{verbList, "fifth", "sixth"}, // nor is this one
			} {
				write(t, file, []byte(step.file+"\n"))
				valid.Store(step.valid)
				if err := asks(step.verb); step.file == step.valid {
					if err != nil {
						t.Errorf("%v: %v", step, err)
					}
				} else {
					mustFail(t, err, reason.Unauthorized)
				}
				for ; sent < len(server.seen()); sent++ {
					tokens.WriteString(strings.TrimPrefix(server.seen()[sent].Header.Get("Authorization"), "Bearer ") + " ")
				}
				tokens.WriteString("| ")
			}
			diff(t, "tokens", tokens.String(), "first | first second | second third | third | third fourth | fourth fifth | ")
		})
	}
	// A token that is given as such is the same at each reading.
	server := note(t, answerWith(401, "text/plain", "no"))
	_, _, err := list[*corev1.Pod](t, server.URL, metav1.ListOptions{}, func(c *Config) { c.REST.BearerToken = plantedToken })
	if mustFail(t, err, reason.Unauthorized); len(server.seen()) != 1 {
		t.Errorf("%d requests", len(server.seen()))
	}
}
