// Package controllerruntime puts nodewatch under controller-runtime, at any of
// three heights:
//
//   - [CacheOptions] leaves a manager as it is and gives its cache nodewatch's
//     requests and decoders, for the types that are named. Retries, relists and
//     the store stay client-go's.
//   - [Source] feeds a controller from a nodewatch collection (a reflector, a
//     union, a shared one), which keeps the whole of nodewatch's path: resuming,
//     liveness, its typed store, a collection that the cache cannot express.
//   - [Runnable] lets a manager run such a collection, with or without a Source on
//     it.
//
// Objects: controller-runtime's cache copies each object that is read from it
// (unless UnsafeDisableDeepCopy is set), so that nobody sees that the stored ones are shared. A
// Source hands its handler the shared object itself, as controller-runtime's Kind does:
// handlers and predicates read it and do not change it, and what a reconciler
// gets from a reflector's Store is copied before it is changed.
//
// It is an example and not a promise: copy what you need.
package controllerruntime
