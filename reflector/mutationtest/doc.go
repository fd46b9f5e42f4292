// Package mutationtest finds writes to the objects of a reflector, in tests.
//
// The objects of a store are shared: with every other consumer, and, by default, in parts with other
// objects and with the versions that follow. A handler that sets a label or sorts a slice in place
// changes all of them. Where two goroutines meet in it the race detector may see that. This
// package sees it always:
//
//	mutationtest.Watch(t, &cfg) // cfg is a reflector.Config
//	r, err := reflector.New(cfg)
//
// It keeps a deep copy of each object that is stored, so it takes the memory of a store whose objects
// share nothing. An object is compared with its copy when another version takes its place, when
// [Detector.Check] is called, and when Run ends. Each difference is told with the key of the
// object and the path of what differs, as in "shop/web-0: spec.containers[0].env[1].value". A write to a
// part that several objects share is told for each of them; the first one that the code at
// fault was given is among them.
//
// With reflector.ObjectsCompact there is nothing to find: each reader has objects of its own.
package mutationtest
