package listwatchtest

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/munnerz/goautoneg"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	mediaJSON     = "application/json"
	mediaProtobuf = "application/vnd.kubernetes.protobuf"
	// mediaTypes is the list in a real server's errors; its YAML is not served here.
	mediaTypes = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
)

// The forms in which an object may be asked for, beside its own.
const (
	asItself       = ""
	asTable        = "Table"
	asMetadata     = "PartialObjectMetadata"
	asMetadataList = "PartialObjectMetadataList"
)

// output is what a request's Accept header came to.
type output struct {
	media  string
	pretty bool
	as     string
}

// negotiate reads the Accept header by a real server's rules. c is nil for what
// is no resource: errors and discovery.
func negotiate(r *http.Request, c *collection) (output, error) {
	header := r.Header.Get("Accept")
	if header == "" {
		return output{media: mediaJSON, pretty: prettyByDefault(r)}, nil
	}
	for _, clause := range goautoneg.ParseAccept(header) {
		for _, media := range []string{mediaJSON, mediaProtobuf} {
			main, sub, _ := strings.Cut(media, "/")
			if (clause.Type != main && clause.Type != "*") || (clause.SubType != sub && clause.SubType != "*") {
				continue
			}
			if media == mediaProtobuf && c != nil && !c.typed && clause.Params["as"] == "" {
				continue // custom resources have no protobuf of their own
			}
			if as, ok := transform(media, clause.Params, c); ok {
				return output{media: media, as: as, pretty: clause.Params["pretty"] == "1" || prettyByDefault(r)}, nil
			}
		}
	}
	return output{}, statusError(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
		"only the following media types are accepted: "+mediaTypes, nil)
}

// routable is what a real server's router says before anything else looks at a
// request: it wants a whole media type that some route produces, or */*.
// collection says that the path is one of objects, which can be watched too.
func routable(r *http.Request, collection bool) error {
	header := r.Header.Get("Accept")
	if header == "" {
		return nil
	}
	for _, clause := range goautoneg.ParseAccept(header) {
		switch clause.Type + "/" + clause.SubType {
		case "*/*", mediaJSON, "application/yaml", mediaProtobuf:
			return nil
		}
	}
	streams := ""
	if collection && r.Method == http.MethodGet {
		streams = ", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
	}
	return statusError(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
		"406: Not Acceptable\n\nAvailable representations: "+mediaTypes+streams, &metav1.StatusDetails{})
}

// transform reads the parameters of an accepted media type; false means that
// the clause must be passed over.
func transform(media string, params map[string]string, c *collection) (as string, ok bool) {
	if stream := params["stream"]; stream != "" && stream != "watch" {
		return "", false
	}
	if params["sv"] != "" {
		return "", false
	}
	as, group, version := params["as"], params["g"], params["v"]
	if as == "" && group == "" && version == "" {
		return asItself, true
	}
	if c == nil || group != metav1.GroupName || version != "v1" {
		return "", false
	}
	switch as {
	case asTable:
		return as, media == mediaJSON
	case asMetadata, asMetadataList:
		return as, true
	}
	return "", false
}

// prettyByDefault: the pretty parameter decides, else whether a person seems to look.
func prettyByDefault(r *http.Request) bool {
	if p := r.URL.Query().Get("pretty"); p != "" {
		pretty, err := strconv.ParseBool(p)
		return err == nil && pretty
	}
	for _, human := range []string{"curl", "Wget", "Mozilla/5.0"} {
		if strings.HasPrefix(r.UserAgent(), human) {
			return true
		}
	}
	return false
}

// acceptsGzip reports whether the client takes gzip; qualities are not looked at.
func acceptsGzip(r *http.Request) bool {
	for token := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		if strings.TrimSpace(token) == "gzip" {
			return true
		}
	}
	return false
}
