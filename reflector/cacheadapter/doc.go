// Package cacheadapter joins nodewatch to client-go's tools/cache, both ways. It
// is a package of its own so that only who wants client-go's informers links
// them.
//
// [ListerWatcher] puts client-go's reflector and informers on top of a nodewatch
// ListerWatcher: requests, decoding and errors are nodewatch's; retries, relists
// and the store are client-go's.
//
// [Feed] is the other half: a nodewatch collection keeps a client-go store, a
// DeltaFIFO, a RealFIFO or anything else that client-go's reflector could fill;
// requests, retries, relists and liveness are nodewatch's.
//
// [Indexer] shows a nodewatch store to client-go's generated listers, and to what
// else reads an informer's indexer.
package cacheadapter
