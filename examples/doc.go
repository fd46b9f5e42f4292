// Package examples holds programs that use nodewatch, one a folder:
//
//   - controller: client-go's workqueue example, in less than 60 lines
//   - leader: a controller whose replicas elect a leader, with client-go's leaderelection
//   - controllerruntime: nodewatch under controller-runtime's cache, as a Source and as a Runnable
//   - agent: puts the pod in front of each line of a node's logs
//   - crdcache: a custom resource as a struct, unstructured and as metadata
//   - controllertest: the test of a controller against scripts of a server's bad days
//   - otel: nodewatch's spans in OpenTelemetry
//
// They are a module of their own, so that what they require besides the library
// (controller-runtime, OpenTelemetry) stays out of the library's go.mod.
// docs/embedding.md goes through what they use.
//
// Those that are programs have the flag -kubeconfig, by default $KUBECONFIG; with neither they take the credentials of a pod.
package examples
