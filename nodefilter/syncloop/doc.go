// Package syncloop dispatches what happens to the pods of a node to one handler,
// as the sync loop of a kubelet does (Kubernetes 1.37, pkg/kubelet/kubelet.go).
//
// # Vocabulary
//
// A Loop waits for the updates of a podconfig.PodConfig, for two ticks (sync and
// housekeeping), for lifecycle events of containers and for results of probes, and
// calls a SyncHandler for each, from one goroutine. A PLEG (pod lifecycle event
// generator) lists the containers of a runtime again and again and makes events of
// the differences. A PodManager is the desired state: the pods of the updates so
// far. A WorkQueue holds pods that are to be synced again later.
//
// # Guarantees
//
//   - One call of the handler at a time. A handler that takes long delays the rest of
//     the loop and nothing else: updates are merged by the PodConfig, ticks are
//     skipped, events wait in bounded channels. Status shows the call and its age.
//   - The PodManager has been changed when the handler is called, and is not changed
//     while it runs.
//   - Housekeeping comes only when every configured source has been handled, so that
//     a pod that is not known is one that no source has.
//   - A handler that panics is caught and counted; the loop goes on with the next
//     event. The call counts as made.
//   - While the runtime is not healthy nothing is handled; the loop looks again after
//     100 ms, doubling up to 5 s, as the kubelet does.
//   - An event of a container is told once it is seen. One that does not fit into the
//     channel is counted and made again by the next relist; the kubelet drops it.
//   - Everything stops with the context of Run, which waits for the handler's call
//     that is under way and for its own goroutines.
//
// There is no order between updates, events, ticks and probe results that are
// ready at the same time. Updates keep theirs.
package syncloop
