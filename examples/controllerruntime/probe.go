package controllerruntime

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/nodewatch-go/nodewatch/listwatch"
)

// probe is a round tripper that notes where a request would go, and does not
// send it, when its context says so.
type probe struct{ next http.RoundTripper }

type probeKey struct{}

type probed struct{ url *url.URL }

var errProbed = errors.New("this request was made to see where it goes, and not sent")

func (p probe) RoundTrip(req *http.Request) (*http.Response, error) {
	if seen, ok := req.Context().Value(probeKey{}).(*probed); ok {
		seen.url = req.URL
		return nil, errProbed
	}
	return p.next.RoundTrip(req)
}

// parse reads a collection from the URL of its list:
// [prefix]/api/VERSION/… or [prefix]/apis/GROUP/VERSION/…, then
// [namespaces/NAMESPACE/]RESOURCE, with the selectors in the query.
func parse(cfg *rest.Config, u *url.URL) (listwatch.Config, error) {
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return listwatch.Config{}, err
	}
	path := strings.Trim(strings.TrimPrefix(u.Path, strings.TrimSuffix(base.Path, "/")), "/")
	var c listwatch.Config
	switch at := strings.Split(path, "/"); {
	case at[0] == "api" && len(at) >= 3:
		c.Resource, path = schema.GroupVersionResource{Version: at[1]}, strings.Join(at[2:], "/")
	case at[0] == "apis" && len(at) >= 4:
		c.Resource, path = schema.GroupVersionResource{Group: at[1], Version: at[2]}, strings.Join(at[3:], "/")
	default:
		return listwatch.Config{}, errors.New("that is no path of a collection")
	}
	switch at := strings.Split(path, "/"); {
	case len(at) == 1:
		c.Resource.Resource = at[0]
	case len(at) == 3 && at[0] == "namespaces":
		c.Namespace, c.Resource.Resource = at[1], at[2]
	default:
		return listwatch.Config{}, errors.New("that is no path of a collection")
	}
	if c.LabelSelector, err = labels.Parse(u.Query().Get("labelSelector")); err != nil {
		return listwatch.Config{}, fmt.Errorf("labelSelector: %w", err)
	}
	if c.FieldSelector, err = fields.ParseSelector(u.Query().Get("fieldSelector")); err != nil {
		return listwatch.Config{}, fmt.Errorf("fieldSelector: %w", err)
	}
	return c, nil
}
