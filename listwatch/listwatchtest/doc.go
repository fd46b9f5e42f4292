// Package listwatchtest is a Kubernetes API server in one process, for tests and
// demos: what net/http/httptest is for web servers. It keeps objects in memory,
// answers LIST and WATCH as kube-apiserver 1.37 does, and has a small Go API to
// create, change and delete what its clients watch.
//
//	srv := listwatchtest.Start(listwatchtest.Config{})
//	defer srv.Close()
//	err := srv.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0"}})
//	clientset, err := kubernetes.NewForConfig(srv.RESTConfig())
//
// # Vocabulary
//
// resourceVersion is one counter for all resources, as etcd's revision is. The
// window is the history of changes that is kept for each resource: a watch or an
// exact list from before it is refused with 410 Expired. A bookmark is an event
// without an object that says how far the stream has come. A watch-list is a
// watch with sendInitialEvents: the list comes as ADDED events, then a bookmark
// annotated k8s.io/initial-events-end.
//
// # Three ways to serve
//
// [Start] listens on a loopback port. [New] alone does not listen: its
// [Server.RESTConfig] dials the server through in-memory pipes, which works with
// virtual time inside a testing/synctest bubble, where sockets do not. Close the
// server before the bubble ends. [Server.Handler] is for callers that bring their
// own http.Server, [Server.Serve] for those that bring a net.Listener.
//
// # Scripts
//
// [Server.Play] answers as a [Script] says instead, byte for byte: errors, cut and
// hung connections, odd chunks, gzip, bookmarks and lists, and checks what the
// client asks, in which order and when. What the script does not say is served
// as ever. The format is described in docs/testing.md; see the example of Play.
//
// # What is faithful
//
// The rules of resourceVersion, resourceVersionMatch, limit and continue; the
// window and its 410s; watch, watch-list and bookmarks; label and field
// selectors (and with Config.Sharding shard selectors), also on a watch, where an
// object that enters the selection is ADDED and one that leaves is DELETED with
// its old content and the new resourceVersion; optimistic locking; the status subresource; graceful deletion
// of pods; the wire: JSON compact and pretty, protobuf, metadata only, Tables,
// gzip from 128 KiB and one gzip member a flush for watch-lists, chunking and
// flushing, headers, and the texts of errors. A list or watch-list of any version
// has the version up to which its own collection was looked at, which may be
// older than the newest write to another resource. Discovery is enough for
// kubectl to get, watch, create, apply, patch, label and delete.
//
// # What is not
//
// There is no admission, no validation beyond names, hardly any defaulting, no
// server-side apply, no managedFields, no garbage collection, no quota; a
// namespace need not exist, and deleting it leaves what is in it. Of a pod's
// subresources there are status and binding. There is no CBOR, YAML, HTTP/2 over cleartext
// or WebSocket. What is wrong with the CEL of a shardSelector is said in other
// words. Each version of a resource is its own collection. Exact lists and continue tokens live as long as the window, not as long as an
// etcd compaction interval. A real server's resourceVersion never rests, since
// its own leases move it; here it rests when nothing is written, and bookmarks
// then repeat it.
package listwatchtest
