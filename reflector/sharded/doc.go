// Package sharded gives a replica of a program its shard of a collection, and
// another one when the number of replicas changes, without a gap.
//
// # Vocabulary
//
// A [Replica] is one of several processes that divide a collection. What it owns
// is a shard.Shard, i of n. To re-shard is to go from i of n to j of m.
//
// # No gap, and a time of two owners
//
// Replicas cannot all change in one instant. If each let go of its old shard as
// soon as it had the new one, an object whose next owner is still listing would
// be nobody's for a while. So [Replica.Reshard] takes the new shard, waits until
// that is synced, waits until the caller says that all replicas have got so
// far, and only then lets go of the old one. In between an object may have two
// owners: what replicas do with it has to bear that, as it has to with any
// controller that is restarted.
//
// # Guarantees
//
//   - What is in the old shard and in the new one is untouched: no event, no second copy.
//   - While all replicas go by the same shards and one barrier, each object is in somebody's
//     store at every moment, but for the time that its first event is under way, as ever.
//   - At rest each object is in the store of exactly one of them.
//
// All of that holds whether the server filters or not; listwatch.Config.Shard says what it costs.
package sharded
