// Package shard says which objects of a collection belong to which of several
// replicas, as the API server's sharded list and watch does (KEP-5866).
//
// # Vocabulary
//
// The server hashes one field of an object's metadata, UID or namespace, with
// FNV-1a to 64 bits. A [Range] is an interval of that space, a [Selector] the
// ranges that a request asks for, and a [Shard] the i-th of n equal parts.
// The request parameter is shardSelector; a list that was narrowed by it says so in
// metadata.shardInfo.
//
// # Guarantees
//
//   - The n shards of one count have every hash exactly once, whatever n is.
//   - [Selector.Matches] is what the server decides, for the same strings.
//   - [Parse] refuses what kube-apiserver 1.37 refuses, in its words where these are not
//     the CEL parser's, and takes what it takes, but for strings with escapes and for what of CEL
//     has no business in a selector and is not looked at (!!shardRange(...), {}.shardRange(...)).
//
// The package makes no request. listwatch.Config.Shard puts a Shard to use.
package shard
