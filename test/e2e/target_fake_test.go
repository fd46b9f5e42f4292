package e2e

import (
	"context"
	"crypto/tls"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
	"github.com/nodewatch-go/nodewatch/test/e2e/apiserver"
)

// fakeTarget is listwatchtest with the users of package apiserver, behind TLS:
// client-go sends the token of a kubeconfig over nothing else.
type fakeTarget struct {
	server *listwatchtest.Server
	config rest.Config // without a user
}

func startFake(t *testing.T) target { return startFakeWith(t, listwatchtest.Config{}) }

// startFakeWith starts a server whose users are those of package apiserver.
func startFakeWith(t *testing.T, config listwatchtest.Config) target {
	certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
	if err != nil {
		t.Fatal(err)
	}
	config.Tokens = map[string]string{
		token(apiserver.Admin): string(apiserver.Admin),
		token(apiserver.Weak):  string(apiserver.Weak),
		token(apiserver.Node):  string(apiserver.Node),
	}
	config.Authorize = authorize
	server := listwatchtest.New(config)
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(listener); err != nil {
			t.Errorf("listwatchtest: %v", err)
		}
	})
	t.Cleanup(func() { server.Close(); serving.Wait() })
	return &fakeTarget{server, rest.Config{
		Host:            "https://" + listener.Addr().String(),
		TLSClientConfig: rest.TLSClientConfig{CAData: certPEM},
		QPS:             -1,
	}}
}

func token(user apiserver.User) string { return "token-of-" + string(user) }

// authorize allows what kube-apiserver's RBAC and node authorizers allow the
// same users, as far as the suites ask.
func authorize(a listwatchtest.Access) bool {
	switch apiserver.User(a.User) {
	case apiserver.Admin:
		return true
	case apiserver.Node:
		return a.Resource == "pods" && a.FieldSelector == "spec.nodeName=node-a"
	}
	return false
}

func (f *fakeTarget) RESTConfig(user apiserver.User) *rest.Config {
	config := rest.CopyConfig(&f.config)
	config.BearerToken = token(user)
	return config
}

func (f *fakeTarget) Compact(context.Context) error {
	f.server.Compact(f.server.ResourceVersion())
	return nil
}

// Kill refuses new connections and cuts those there are.
func (f *fakeTarget) Kill() {
	f.server.Pause()
	f.server.CloseConnections()
}

func (f *fakeTarget) Restart(context.Context) error {
	f.Kill()
	f.server.Resume()
	return nil
}

func (f *fakeTarget) LogTail(int) string { return "" }
