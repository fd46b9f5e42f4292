// Package nodefilter scopes pods to the node they run on.
//
// A pod belongs to a node by its field spec.nodeName, which the scheduler sets
// once and nobody changes afterwards. The API server can select by that field,
// so a program that runs on every node asks for the pods of its own node only:
// the server then sends some dozens of objects instead of those of the whole
// cluster. This is how the kubelet gets its pods, and NewPodReflector is the
// kubelet's API server source in its simplest form.
//
// # Vocabulary
//
// A scope is a field selector that requires spec.nodeName to be one node. A
// guard is a function that says of an object whether it is in the scope; it
// protects the store against a server, or something between, that ignores the
// selector.
//
// # Credentials of a node
//
// The node authorizer of the API server lets the user system:node:NAME list and
// watch pods only where the field selector of the request requires
// spec.nodeName to be equal to NAME (feature AuthorizeNodeWithSelectors,
// KEP-4601). A request without it, or for another node, is answered with 403
// Forbidden; a selector like spec.nodeName!=other does not count. The scopes
// made here have the required form. A node's credentials cannot watch two nodes:
// Nodes needs those of a user or service account that may list and watch pods. With
// a node's it has that node's pods, and says of the others that they are forbidden.
//
// # Guarantees
//
//   - A scope is never wider than its node: an empty or invalid node name is an
//     error and not a selector for everything, and a selector that contradicts
//     the scope is an error and not an empty collection.
//   - Selectors are pure values: nothing here makes a request.
package nodefilter
