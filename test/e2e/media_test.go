package e2e

import (
	"maps"
	"net/http"
)

// The media types that clients of list and watch ask for.
const (
	mediaJSON     = "application/json"
	mediaProtobuf = "application/vnd.kubernetes.protobuf"
	// mediaKubectl is what kubectl get sends.
	mediaKubectl    = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
	mediaTable      = "application/json;as=Table;v=v1;g=meta.k8s.io"
	mediaPartial    = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
	mediaPartials   = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
	protobufPartial = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
	protobufLists   = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
)

// mediaRows ask for one list in each representation, and for what there is not.
func mediaRows() map[string]probe {
	const list = "/api/v1/namespaces/default/pods"
	gzip := http.Header{"Accept-Encoding": {"gzip"}}
	rows := map[string]probe{
		"table,includeObject=None":     {path: list + "?includeObject=None", accept: mediaTable},
		"table,includeObject=Object":   {path: list + "?includeObject=Object", accept: mediaTable},
		"table,includeObject=Metadata": {path: list + "?includeObject=Metadata", accept: mediaTable},
		"table,includeObject=bogus":    {path: list + "?includeObject=bogus", accept: mediaTable},
		"table,limit":                  {path: list + "?limit=1", accept: mediaTable},
		"table,one object":             {path: list + "/alpha", accept: mediaTable},
		"table,nodes":                  {path: "/api/v1/nodes", accept: mediaTable},
		"table,namespaces":             {path: "/api/v1/namespaces/other", accept: mediaTable},
		"table,wrong group":            {path: list, accept: "application/json;as=Table;v=v1;g=bogus"},
		"table,error":                  {path: list + "/none", accept: mediaKubectl},
		"partial,one object":           {path: list + "/alpha", accept: mediaPartial},
		"partials,one object":          {path: list + "/alpha", accept: mediaPartials},
		"protobuf,one object":          {path: list + "/alpha", accept: mediaProtobuf},
		"protobuf,error":               {path: list + "/none", accept: mediaProtobuf},
		"protobuf,partial,one object":  {path: list + "/alpha", accept: protobufPartial},
		"nodes":                        {path: "/api/v1/nodes"},
		"nodes,protobuf":               {path: "/api/v1/nodes", accept: mediaProtobuf},
		"pretty=true":                  {path: list + "?pretty=true"},
		"pretty=1,error":               {path: list + "/none?pretty=1"},
		"pretty=0,curl":                {path: list + "?pretty=0", header: http.Header{"User-Agent": {"curl/8.0"}}},
		"curl":                         {path: list, header: http.Header{"User-Agent": {"curl/8.0"}}},
		"curl,error":                   {path: list + "/none", header: http.Header{"User-Agent": {"curl/8.0"}}},
		"gzip,small":                   {path: list, header: gzip},
		"gzip,large":                   {path: "/api/v1/namespaces/big/pods", header: gzip},
		"gzip,large,protobuf":          {path: "/api/v1/namespaces/big/pods", accept: mediaProtobuf, header: gzip},
		"gzip,error":                   {path: list + "/none", header: gzip},
		"gzip,deflate asked":           {path: "/api/v1/namespaces/big/pods", header: http.Header{"Accept-Encoding": {"deflate"}}},
		"gzip,among others":            {path: "/api/v1/namespaces/big/pods", header: http.Header{"Accept-Encoding": {"deflate, gzip;q=0.5"}}},
		"large,not compressed":         {path: "/api/v1/namespaces/big/pods"},
	}
	for name, accept := range map[string]string{
		"anything":                "*/*",
		"application/*":           "application/*",
		"json":                    mediaJSON,
		"json,charset":            "application/json; charset=utf-8",
		"protobuf":                mediaProtobuf,
		"protobuf,then json":      mediaProtobuf + "," + mediaJSON,
		"json,then protobuf":      mediaJSON + "," + mediaProtobuf,
		"protobuf,q less":         mediaProtobuf + ";q=0.1," + mediaJSON + ";q=0.9",
		"protobuf,stream=watch":   mediaProtobuf + ";stream=watch",
		"json,stream=watch":       "application/json;stream=watch",
		"table":                   mediaTable,
		"kubectl":                 mediaKubectl,
		"partial":                 mediaPartial,
		"partials":                mediaPartials,
		"partials,then json":      mediaPartials + "," + mediaJSON,
		"protobuf,partials":       protobufLists,
		"html":                    "text/html",
		"html,then json":          "text/html," + mediaJSON,
		"nothing of this world":   "application/x-bogus",
		"bogus,then anything":     "application/x-bogus, */*",
		"not a media type at all": "a/b/c;;",
	} {
		rows["accept "+name] = probe{path: list, accept: accept}
	}
	maps.Copy(rows, discoveryRows())
	return rows
}

// discoveryRows ask for what kubectl asks for before it lists pods, where the
// answer does not depend on what else the server serves.
func discoveryRows() map[string]probe {
	const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
	return map[string]probe{
		"discovery healthz":          {path: "/healthz", accept: "*/*"},
		"discovery readyz":           {path: "/readyz", accept: "*/*"},
		"discovery livez":            {path: "/livez", accept: "*/*"},
		"discovery unknown group":    {path: "/apis/bogus.example/v1"},
		"discovery unknown version":  {path: "/api/v9"},
		"discovery unknown path":     {path: "/bogus"},
		"discovery versions,refused": {path: "/api", accept: "text/html"},
		"discovery kubectl/bogus":    {path: "/api/v9", accept: aggregated},
	}
}
