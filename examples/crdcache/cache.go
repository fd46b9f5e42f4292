// Package crdcache keeps a custom resource in memory in three ways: as a Go struct, as
// unstructured content, and as metadata only. All three are the same code with another type.
package crdcache

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// Certificates is the resource. Custom resources are served as JSON only.
var Certificates = schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: "certificates"}

// Certificate has the fields that this program reads; it needs no generated code, no
// deep copy and no scheme. What it does not name is not decoded.
type Certificate struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		SecretName string   `json:"secretName"`
		DNSNames   []string `json:"dnsNames"`
	} `json:"spec"`
	Status struct {
		NotAfter *metav1.Time `json:"notAfter"`
	} `json:"status"`
}

// DNSName is the name of the index of certificates by what they are for.
const DNSName = "dns-name"

// Typed returns the certificates as structs, found by DNS name.
func Typed(cfg *rest.Config) (*reflector.Reflector[*Certificate], error) {
	return collection(listwatch.Config{REST: cfg, Resource: Certificates, Kind: "Certificate"},
		reflector.Index[*Certificate]{Name: DNSName, Values: func(c *Certificate) []string { return c.Spec.DNSNames }})
}

// Unstructured returns the certificates as they are on the server, but for what nobody reads.
func Unstructured(cfg *rest.Config) (*reflector.Reflector[*unstructured.Unstructured], error) {
	return collection[*unstructured.Unstructured](listwatch.Config{
		REST: cfg, Resource: Certificates,
		Decode: decode.Config{Drop: []string{"metadata.managedFields"}},
	})
}

// Metadata returns the metadata of the certificates. The server sends nothing else, and sends it as protobuf.
func Metadata(cfg *rest.Config) (*reflector.Reflector[*metav1.PartialObjectMetadata], error) {
	return collection(listwatch.Config{REST: cfg, Resource: Certificates},
		reflector.ByLabel[*metav1.PartialObjectMetadata]("team"))
}

func collection[T any](c listwatch.Config, indexes ...reflector.Index[T]) (*reflector.Reflector[T], error) {
	lw, err := listwatch.New[T](c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Resource.Resource, err)
	}
	return reflector.New(reflector.Config[T]{ListerWatcher: lw, Store: reflector.NewStore(indexes...), OnStop: lw.Close})
}
