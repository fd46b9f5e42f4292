package e2e

import "github.com/nodewatch-go/nodewatch/test/e2e/apiserver"

// listRows ask for lists in every way that has rules of its own.
// https://kubernetes.io/docs/reference/using-api/api-concepts/#semantics-for-get-and-list
func listRows() map[string]probe {
	rows := map[string]probe{
		"continue":                        {path: "/api/v1/pods?limit=3&continue={token}"},
		"continue,without limit":          {path: "/api/v1/pods?continue={token}"},
		"continue,rv=0":                   {path: "/api/v1/pods?limit=3&continue={token}&resourceVersion=0"},
		"continue,rv=mid":                 {path: "/api/v1/pods?limit=3&continue={token}&resourceVersion={mid}"},
		"continue,match=Exact":            {path: "/api/v1/pods?limit=3&continue={token}&resourceVersionMatch=Exact"},
		"continue,match=NotOlderThan":     {path: "/api/v1/pods?limit=3&continue={token}&resourceVersionMatch=NotOlderThan"},
		"continue,garbage":                {path: "/api/v1/pods?limit=3&continue=garbage"},
		"continue,base64 of garbage":      {path: "/api/v1/pods?limit=3&continue=Z2FyYmFnZQ"},
		"continue,other selector":         {path: "/api/v1/pods?limit=3&continue={token}&labelSelector=app%3Dweb"},
		"continue,other namespace":        {path: "/api/v1/namespaces/other/pods?limit=3&continue={token}"},
		"limit=garbage":                   {path: "/api/v1/pods?limit=abc"},
		"limit=-1":                        {path: "/api/v1/namespaces/default/pods?limit=-1"},
		"limit=0":                         {path: "/api/v1/namespaces/default/pods?limit=0"},
		"limit of all":                    {path: "/api/v1/namespaces/default/pods?limit=3"},
		"limit with selector":             {path: "/api/v1/pods?limit=1&labelSelector=app%3Dweb"},
		"namespace":                       {path: "/api/v1/namespaces/default/pods"},
		"namespace without pods":          {path: "/api/v1/namespaces/kube-public/pods"},
		"namespace that is not there":     {path: "/api/v1/namespaces/nowhere/pods"},
		"label equals":                    {path: "/api/v1/pods?labelSelector=app%3Dweb"},
		"label differs":                   {path: "/api/v1/pods?labelSelector=app%21%3Dweb"},
		"label in":                        {path: "/api/v1/pods?labelSelector=app+in+%28db%2Cweb%29%2Ctier"},
		"label exists not":                {path: "/api/v1/pods?labelSelector=%21app"},
		"label garbage":                   {path: "/api/v1/pods?labelSelector=app%3D%3D%3D"},
		"label bad value":                 {path: "/api/v1/pods?labelSelector=app%3Da_%21b"},
		"field nodeName":                  {path: "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-a"},
		"field nodeName differs":          {path: "/api/v1/pods?fieldSelector=spec.nodeName%21%3Dnode-a"},
		"field nodeName empty":            {path: "/api/v1/pods?fieldSelector=spec.nodeName%3D"},
		"field nodeName and phase":        {path: "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-a%2Cstatus.phase%3DRunning"},
		"field phase differs twice":       {path: "/api/v1/pods?fieldSelector=status.phase%21%3DRunning%2Cstatus.phase%21%3DSucceeded"},
		"field name":                      {path: "/api/v1/namespaces/default/pods?fieldSelector=metadata.name%3Dalpha"},
		"field name and namespace":        {path: "/api/v1/pods?fieldSelector=metadata.name%3Dalpha%2Cmetadata.namespace%3Ddefault"},
		"field restartPolicy":             {path: "/api/v1/namespaces/default/pods?fieldSelector=spec.restartPolicy%3DAlways"},
		"field and label":                 {path: "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-a&labelSelector=app%3Dweb"},
		"field unknown":                   {path: "/api/v1/pods?fieldSelector=spec.bogus%3Dx"},
		"field garbage":                   {path: "/api/v1/pods?fieldSelector=spec.nodeName"},
		"unknown parameter":               {path: "/api/v1/namespaces/default/pods?bogus=1"},
		"watch=0":                         {path: "/api/v1/namespaces/default/pods?watch=0"},
		"watch=false":                     {path: "/api/v1/namespaces/default/pods?watch=false"},
		"match without rv":                {path: "/api/v1/namespaces/default/pods?resourceVersionMatch=NotOlderThan"},
		"sendInitialEvents without watch": {path: "/api/v1/pods?sendInitialEvents=true"},
		"timeoutSeconds":                  {path: "/api/v1/namespaces/default/pods?timeoutSeconds=5"},
		"node user, own node":             {path: "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-a", user: apiserver.Node},
		"get":                             {path: "/api/v1/namespaces/default/pods/alpha"},
		"get,rv=0":                        {path: "/api/v1/namespaces/default/pods/alpha?resourceVersion=0"},
	}
	for name, query := range cross(
		[]string{"resourceVersion", "-", "0", "{mid}", "{head}", "{future}", "abc", "-1"},
		[]string{"resourceVersionMatch", "-", "Exact", "NotOlderThan", "Bogus"},
		[]string{"limit", "-", "2"},
	) {
		rows[name] = probe{path: "/api/v1/namespaces/default/pods?" + query}
	}
	return rows
}

// expiredRows ask for lists of a past that was dropped.
func expiredRows() map[string]probe {
	rows := map[string]probe{
		"continue": {path: "/api/v1/pods?limit=3&continue={token}"},
		"get":      {path: "/api/v1/namespaces/default/pods/alpha?resourceVersion={first}"},
	}
	for name, query := range cross(
		[]string{"resourceVersion", "1", "{mid}", "{after}"},
		[]string{"resourceVersionMatch", "-", "Exact", "NotOlderThan"},
		[]string{"limit", "-", "2"},
	) {
		rows[name] = probe{path: "/api/v1/namespaces/default/pods?" + query}
	}
	return rows
}
