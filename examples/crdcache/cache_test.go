package crdcache

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
	"github.com/nodewatch-go/nodewatch/reflector"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func certificate(name, team string, dnsNames ...any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cert-manager.io/v1", "kind": "Certificate",
		"metadata": map[string]any{"namespace": "web", "name": name, "labels": map[string]any{"team": team}},
		"spec":     map[string]any{"secretName": name + "-tls", "dnsNames": dnsNames, "duration": "2160h"},
		"status":   map[string]any{"notAfter": "2031-01-02T03:04:05Z"},
	}}
}

// serve starts a server with the custom resource, and runs test on a reflector of it that is synced.
func serve[T any](t *testing.T, of func(*listwatchtest.Server) (*reflector.Reflector[T], error), test func(*listwatchtest.Server, *reflector.Store[T])) {
	synctest.Test(t, func(t *testing.T) {
		srv := listwatchtest.New(listwatchtest.Config{
			Resources: []listwatchtest.Resource{{GroupVersionResource: Certificates, Kind: "Certificate", Namespaced: true}},
		})
		defer srv.Close()
		for _, c := range []*unstructured.Unstructured{certificate("shop", "a", "shop.example.com", "www.example.com"), certificate("mail", "b", "mail.example.com")} {
			if err := srv.Create(c); err != nil {
				t.Fatal(err)
			}
		}
		r, err := of(srv)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		if err := r.WaitForSync(ctx); err != nil {
			t.Fatal(err)
		}
		test(srv, r.Store())
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestTyped(t *testing.T) {
	serve(t, func(srv *listwatchtest.Server) (*reflector.Reflector[*Certificate], error) {
		return Typed(srv.RESTConfig())
	},
		func(srv *listwatchtest.Server, store *reflector.Store[*Certificate]) {
			secretOf := func(dnsName string) string {
				synctest.Wait()
				for _, c := range store.By(DNSName, dnsName) {
					return c.Spec.SecretName + " until " + c.Status.NotAfter.UTC().Format("2006")
				}
				return "none"
			}
			if got, want := secretOf("www.example.com"), "shop-tls until 2031"; got != want {
				t.Errorf("found %s, want %s", got, want)
			}
			if err := srv.Update(certificate("mail", "b", "smtp.example.com")); err != nil {
				t.Fatal(err)
			}
			if err := srv.Delete(certificate("shop", "a")); err != nil {
				t.Fatal(err)
			}
			got := []string{secretOf("mail.example.com"), secretOf("smtp.example.com"), secretOf("www.example.com")}
			if strings.Join(got, ", ") != "none, mail-tls until 2031, none" {
				t.Errorf("after changes: %q", got)
			}
		})
}

func TestUnstructured(t *testing.T) {
	serve(t, func(srv *listwatchtest.Server) (*reflector.Reflector[*unstructured.Unstructured], error) {
		return Unstructured(srv.RESTConfig())
	}, func(srv *listwatchtest.Server, store *reflector.Store[*unstructured.Unstructured]) {
		c, ok := store.Get("web", "shop")
		if !ok {
			t.Fatal("the certificate is not in the store")
		}
		duration, _, _ := unstructured.NestedString(c.Object, "spec", "duration")
		if c.GetKind() != "Certificate" || c.GetAPIVersion() != "cert-manager.io/v1" || duration != "2160h" {
			t.Errorf("stored is %v", c.Object)
		}
	})
}

type metadata = metav1.PartialObjectMetadata

func TestMetadata(t *testing.T) {
	var asked *listwatchtest.Server
	serve(t, func(srv *listwatchtest.Server) (*reflector.Reflector[*metadata], error) {
		asked = srv
		return Metadata(srv.RESTConfig())
	}, func(srv *listwatchtest.Server, store *reflector.Store[*metadata]) {
		var names []string
		for key := range store.By("label:team", "b") {
			names = append(names, key.String())
		}
		if strings.Join(names, " ") != "web/mail" {
			t.Errorf("team b has %q", names)
		}
		for _, r := range asked.Requests() {
			if !strings.Contains(r.Accept, "as=PartialObjectMetadata") {
				t.Errorf("%s asked for %s", r, r.Accept)
			}
		}
	})
}
