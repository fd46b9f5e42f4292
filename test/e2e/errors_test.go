package e2e

import (
	"net/http"

	"github.com/nodewatch-go/nodewatch/test/e2e/apiserver"
)

// errorRows are refused, each in the server's words.
func errorRows() map[string]probe {
	const pods = "/api/v1/namespaces/default/pods"
	return map[string]probe{
		"401":                          {path: "/api/v1/pods", token: "bogus"},
		"401,watch":                    {path: "/api/v1/pods?watch=1", token: "bogus"},
		"401,protobuf":                 {path: "/api/v1/pods", token: "bogus", accept: mediaProtobuf},
		"403,list":                     {path: "/api/v1/pods", user: apiserver.Weak},
		"403,list in namespace":        {path: pods, user: apiserver.Weak},
		"403,list of node":             {path: "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-a", user: apiserver.Weak},
		"403,watch":                    {path: "/api/v1/pods?watch=1", user: apiserver.Weak},
		"403,watch in namespace":       {path: pods + "?watch=true", user: apiserver.Weak},
		"403,watch-list":               {path: "/api/v1/pods?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", user: apiserver.Weak},
		"403,get":                      {path: pods + "/alpha", user: apiserver.Weak},
		"403,get what is not there":    {path: pods + "/none", user: apiserver.Weak},
		"403,nodes":                    {path: "/api/v1/nodes", user: apiserver.Weak},
		"403,node":                     {path: "/api/v1/nodes/node-a", user: apiserver.Weak},
		"403,create":                   {method: http.MethodPost, path: pods, body: podBody("weak"), user: apiserver.Weak},
		"403,update":                   {method: http.MethodPut, path: pods + "/alpha", body: podBody("alpha"), user: apiserver.Weak},
		"403,update status":            {method: http.MethodPut, path: pods + "/alpha/status", body: podBody("alpha"), user: apiserver.Weak},
		"403,patch":                    {method: http.MethodPatch, path: pods + "/alpha", body: `{}`, user: apiserver.Weak},
		"403,delete":                   {method: http.MethodDelete, path: pods + "/alpha", user: apiserver.Weak},
		"403,delete all":               {method: http.MethodDelete, path: pods, user: apiserver.Weak},
		"403,unknown resource":         {path: "/api/v1/bogus", user: apiserver.Weak},
		"403,protobuf":                 {path: "/api/v1/pods", user: apiserver.Weak, accept: mediaProtobuf},
		"403,table":                    {path: "/api/v1/pods", user: apiserver.Weak, accept: mediaKubectl},
		"403,before 406":               {path: "/api/v1/pods", user: apiserver.Weak, accept: "text/html"},
		"403,bad selector":             {path: "/api/v1/pods?fieldSelector=spec.bogus%3Dx", user: apiserver.Weak},
		"404,object":                   {path: pods + "/none"},
		"404,node":                     {path: "/api/v1/nodes/none"},
		"404,resource":                 {path: "/api/v1/bogus"},
		"404,resource in namespace":    {path: "/api/v1/namespaces/default/bogus"},
		"404,delete":                   {method: http.MethodDelete, path: pods + "/none"},
		"404,patch":                    {method: http.MethodPatch, path: pods + "/none", body: `{}`, header: http.Header{"Content-Type": {"application/merge-patch+json"}}},
		"405,post to object":           {method: http.MethodPost, path: pods + "/alpha", body: podBody("alpha")},
		"405,put to list":              {method: http.MethodPut, path: pods, body: podBody("alpha")},
		"405,patch of list":            {method: http.MethodPatch, path: pods, body: `{}`},
		"405,delete of all namespaces": {method: http.MethodDelete, path: "/api/v1/pods"},
		"405,bogus method":             {method: "BOGUS", path: pods},
		"405,options":                  {method: http.MethodOptions, path: pods},
		"406,list":                     {path: pods, accept: "text/html"},
		"406,watch":                    {path: pods + "?watch=1", accept: "text/html"},
		"406,watch cbor":               {path: pods + "?watch=1", accept: "application/cbor"},
		"406,get":                      {path: pods + "/alpha", accept: "text/html"},
		"409,exists":                   {method: http.MethodPost, path: pods, body: podBody("alpha")},
		"409,update of the past":       {method: http.MethodPut, path: pods + "/alpha", body: podBody("alpha", `"resourceVersion":"{first}"`)},
		"409,delete with other uid":    {method: http.MethodDelete, path: pods + "/alpha", body: `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"bogus"}}`},
		"400,body is no JSON":          {method: http.MethodPost, path: pods, body: `{`},
		"400,body of another kind":     {method: http.MethodPost, path: pods, body: `{"kind":"Node","apiVersion":"v1","metadata":{"name":"x"}}`},
		"400,other namespace":          {method: http.MethodPost, path: pods, body: `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x","namespace":"other"}}`},
		"400,other name":               {method: http.MethodPut, path: pods + "/alpha", body: podBody("beta")},
		"422,no name":                  {method: http.MethodPost, path: pods, body: podBody("")},
		"422,bad name":                 {method: http.MethodPost, path: pods, body: podBody("Not_A_Name")},
		"415,create":                   {method: http.MethodPost, path: pods, body: "x", header: http.Header{"Content-Type": {"text/plain"}}},
		"415,patch":                    {method: http.MethodPatch, path: pods + "/alpha", body: "{}", header: http.Header{"Content-Type": {"application/json"}}},
		"get,future":                   {path: pods + "/alpha?resourceVersion={future}"},
		"get,garbage":                  {path: pods + "/alpha?resourceVersion=abc"},
	}
}

// podBody is a pod to create in the namespace default.
func podBody(name string, more ...string) string {
	meta := `"name":"` + name + `"`
	for _, field := range more {
		meta += "," + field
	}
	return `{"kind":"Pod","apiVersion":"v1","metadata":{` + meta +
		`},"spec":{"nodeName":"node-a","containers":[{"name":"main","image":"i"}]}}`
}
