// Package shared gives any number of consumers of the same collection one
// reflector, and so one watch: what SharedInformerFactory is in client-go.
//
// # Vocabulary
//
// A [Pool] has the reflectors of one Go type on one API server, with one set of
// options. A [Scope] names a collection: resource, namespace, selectors, shard. Who
// asks for one gets a [Lease], and lets go of it by Close or by the end of its context. The
// first lease of a collection starts its reflector, the end of the last one stops it.
//
// # What is shared, and what is kept apart
//
// Scopes that select the same in other words are one: a=b and a==b and a in (b);
// requirements in another order, or twice; the zero shard and one of one.
//
// Everything else that makes a reflector what it is (decoder, transform, indexes,
// what it keeps of an object) belongs to the Pool, so that it cannot differ between two
// who ask for one collection. Who needs something else has another Pool, and that has watches of
// its own: functions cannot be compared, and an object that one consumer wants whole
// and another one stripped is not one object.
//
// # Guarantees
//
//   - One reflector for each collection, however many leases there are and whatever
//     words they use; none when there is no lease, or Config.Linger after the last one.
//   - A late lease gets the snapshot first, from the store and not from the server.
//   - Each reflector has a name that tells its collection, in logs, in metrics and on debug pages, unless
//     Config.Reflector gives it another one.
//   - A failed construction is an error of who asked, and is tried anew by the next one.
//   - A Pool that was closed, and a collection nobody holds, has no goroutine, no
//     connection and no metric series.
package shared
