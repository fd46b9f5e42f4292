package listwatch

import (
	"errors"
	"net"
	"net/url"
	"path"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion/queryparams"
	"k8s.io/client-go/rest"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// The verbs of requests, as RBAC and Error.Verb name them.
const (
	verbList  = "list"
	verbWatch = "watch"
)

// Media types of the Kubernetes API.
const (
	mediaJSON     = decode.MediaJSON
	mediaProtobuf = decode.MediaProtobuf
)

// validateHost refuses a host that is no URL, or more than one. Its text never
// quotes the host, which may hold a password.
func validateHost(host string) error {
	if strings.Contains(host, "@") {
		return errors.New("has user info; put the credentials into Username and Password, or BearerToken")
	}
	u, _, err := rest.DefaultServerUrlFor(&rest.Config{Host: host})
	if err != nil {
		return errors.New("is neither a URL nor host:port")
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("has a scheme other than http and https")
	}
	if u.RawQuery != "" || u.Fragment != "" || u.ForceQuery {
		return errors.New("has a query or a fragment; give scheme, host, port and path prefix only")
	}
	if u.Hostname() == "" {
		return errors.New("names no host")
	}
	return nil
}

// collectionURL returns the URL of the collection of c, without a query.
func collectionURL(c Config) (*url.URL, error) {
	cfg := *c.REST
	gv := c.Resource.GroupVersion()
	cfg.GroupVersion = &gv
	cfg.APIPath = "/apis"
	if gv.Group == "" {
		cfg.APIPath = "/api"
	}
	base, versioned, err := rest.DefaultServerUrlFor(&cfg)
	if err != nil {
		return nil, err
	}
	segments := []string{base.Path, versioned}
	if c.Namespace != "" {
		segments = append(segments, "namespaces", c.Namespace)
	}
	return &url.URL{Scheme: base.Scheme, Host: base.Host, Path: path.Join("/", path.Join(append(segments, c.Resource.Resource)...))}, nil
}

// requestURL returns the URL that asks with opts, of which Watch is set by verb.
func (lw *ListerWatcher[T]) requestURL(verb string, opts metav1.ListOptions) (*url.URL, error) {
	opts.Watch = verb == verbWatch
	if s := lw.config.LabelSelector; s != nil {
		opts.LabelSelector = and(s.String(), opts.LabelSelector)
	}
	if s := lw.config.FieldSelector; s != nil {
		opts.FieldSelector = and(s.String(), opts.FieldSelector)
	}
	query, err := queryparams.Convert(&opts)
	if err != nil {
		return nil, err
	}
	u := *lw.url
	u.RawQuery = query.Encode()
	return &u, nil
}

// and joins two selectors, each of which may be empty.
func and(a, b string) string {
	switch {
	case a == "" || a == b:
		return b
	case b == "":
		return a
	}
	return a + "," + b
}

// publicURL is u for an error or a log line: what ListOptions cannot have put
// into the query is left out, and so is the content of a continue token.
func publicURL(u *url.URL) string {
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	query := url.Values{}
	for name, values := range u.Query() {
		switch name {
		case "continue":
			query[name] = []string{"..."}
		case "labelSelector", "fieldSelector", "watch", "allowWatchBookmarks", "resourceVersion", "resourceVersionMatch",
			"timeoutSeconds", "limit", "sendInitialEvents", "shardSelector":
			query[name] = values
		}
	}
	shown.RawQuery = query.Encode()
	return shown.String()
}

// accept returns the Accept header. For metadata the server is asked to cut the
// objects down itself (API concepts, "Metadata-only fetches").
func (lw *ListerWatcher[T]) accept(verb string, jsonOnly bool) string {
	suffix := ""
	if lw.metadataOnly {
		suffix = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
		if verb == verbWatch {
			suffix = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
		}
	}
	switch {
	case jsonOnly || lw.config.Encoding == EncodingJSON || !lw.hasProtobuf:
		return mediaJSON + suffix
	case lw.config.Encoding == EncodingProtobuf:
		return mediaProtobuf + suffix
	}
	return mediaProtobuf + suffix + ", " + mediaJSON + suffix
}

// offersBoth is whether the Accept header leaves a second choice.
func (lw *ListerWatcher[T]) offersBoth() bool {
	return lw.hasProtobuf && lw.config.Encoding == EncodingAuto
}

// wantsGzip is whether to ask for compression: on loopback it costs more than
// it saves.
func wantsGzip(c Config, u *url.URL) bool {
	switch c.Compression {
	case CompressionOn:
		return true
	case CompressionOff:
		return false
	}
	if c.REST.DisableCompression {
		return false
	}
	host := u.Hostname()
	if host == "localhost" {
		return false
	}
	ip := net.ParseIP(host)
	return ip == nil || !ip.IsLoopback()
}
