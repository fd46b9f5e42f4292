package listwatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/listwatch/shard"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// Sharding is what is known of the server's part in Config.Shard.
type Sharding uint8

// The answers of a server that is asked for a shard.
const (
	// ShardingUnknown: nothing shows yet. Watches, lists of metadata only and lists of custom
	// resources do not say that they are narrowed, so it may stay so for good where the server filters.
	ShardingUnknown Sharding = iota
	// ShardingServed: a list said that the server filters.
	ShardingServed
	// ShardingIgnored: the server sent objects of other shards. All of the collection comes, and is filtered here.
	ShardingIgnored
	// ShardingRefused: the server refuses the parameter, and is asked without it for half an hour. All
	// of the collection comes, and is filtered here.
	ShardingRefused
)

// String returns unknown, served, ignored or refused.
func (s Sharding) String() string {
	switch s {
	case ShardingUnknown:
		return "unknown"
	case ShardingServed:
		return "served"
	case ShardingIgnored:
		return "ignored"
	case ShardingRefused:
		return "refused"
	}
	return fmt.Sprintf("Sharding(%d)", uint8(s))
}

// Sharding returns what is known so far. Of several API servers behind one address
// that differ it is what was seen last.
func (lw *ListerWatcher[T]) Sharding() Sharding { return lw.shards.known() }

// shardRetry is how long a refusal of the parameter is remembered: servers get upgraded.
const shardRetry = 30 * time.Minute

// sharding is Config.Shard at work. The filter is never off, since what a list said need
// not hold for the watch behind it: of several API servers one may have the feature and another not.
type sharding struct {
	selector shard.Selector
	log      *slog.Logger

	state   atomic.Uint32 // a Sharding
	told    atomic.Bool   // that the server does not filter
	retryAt atomic.Int64  // when a refusal is forgotten, in Unix nanoseconds
}

func (s *sharding) init(c Config) {
	if s.selector = c.Shard.Selector(); !s.off() {
		s.log = c.Logger.With("resource", c.Resource.String(), "shard", c.Shard.String())
	}
}

func (s *sharding) off() bool { return s.selector.Empty() }

func (s *sharding) known() Sharding { return Sharding(s.state.Load()) }

// turn notes that the server does not filter, and says so the first time.
func (s *sharding) turn(to Sharding, how string, args ...any) {
	if s.known() == to {
		return
	}
	s.state.Store(uint32(to))
	if !s.told.Swap(true) {
		s.log.Warn(how+": it sends the objects of all shards, and those of others are dropped here; "+
			"each replica costs the server and the network what an unsharded one does", args...)
	}
}

// open sends the request, with Config.Shard's selector where there is one, and returns the answer, which is a
// 200. A server that refuses the selector gets the same request once more without it.
func (lw *ListerWatcher[T]) open(ctx context.Context, verb string, opts metav1.ListOptions) (*answer, *request, error) {
	s := &lw.shards
	if s.off() {
		return lw.ask(ctx, verb, opts)
	}
	if opts.ShardSelector != "" {
		req := &request{verb: verb, opts: opts, url: lw.url}
		return nil, req, lw.fault(req, nil, reason.Rejected,
			errors.New("ListOptions has a ShardSelector and listwatch.Config a Shard: use one of them"))
	}
	if time.Now().UnixNano() < s.retryAt.Load() {
		return lw.ask(ctx, verb, opts)
	}
	bare := opts
	opts.ShardSelector = s.selector.String()
	ans, req, err := lw.ask(ctx, verb, opts)
	if err == nil {
		s.state.CompareAndSwap(uint32(ShardingRefused), uint32(ShardingUnknown))
	}
	if !refusesShards(err) {
		return ans, req, err
	}
	ans, req, second := lw.ask(ctx, verb, bare)
	if second != nil {
		return nil, req, second
	}
	s.retryAt.Store(time.Now().Add(shardRetry).UnixNano())
	s.turn(ShardingRefused, "server refuses shardSelector", "err", err, "retry", shardRetry)
	return ans, req, nil
}

// refusesShards reports whether a server may mean the selector. Strict ones and proxies refuse a parameter that
// they do not know with a 4xx; kube-apiserver answers 500 to a selector that it does not understand.
func refusesShards(err error) bool {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return false
	}
	switch e.Code {
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusNotImplemented:
		return true
	case http.StatusInternalServerError:
		return e.APIStatus != nil && strings.Contains(e.APIStatus.Message, "shard selector")
	}
	return false
}

// check judges the metadata of a list that was asked for with a selector, "" for none. A list
// that does not say that it is narrowed may be so all the same.
func (s *sharding) check(m *metav1.ListMeta, asked string) error {
	if m.ShardInfo == nil {
		if !s.off() {
			m.RemainingItemCount = nil // if there is one, it is that of all shards
		}
		return nil
	}
	if s.off() && asked != "" {
		return nil // the caller's own
	}
	echo, err := shard.Parse(m.ShardInfo.Selector)
	if err != nil || !echo.Same(s.selector) {
		// What it does not have would be taken for gone.
		return fmt.Errorf("the list is of the shard selector %q, not of %q", oneLine(m.ShardInfo.Selector, 256), s.selector)
	}
	s.state.Store(uint32(ShardingServed))
	return nil
}

// skips reports whether an object is one of another shard. whole says that it came whole: of one that did
// not, the UID may be missing, and then it is nobody's to drop.
func (s *sharding) skips(m *decode.Meta, whole bool) bool {
	if s.off() || !whole && m.UID == "" || s.selector.Matches(m.UID, m.Namespace) {
		return false
	}
	if s.known() != ShardingRefused {
		s.turn(ShardingIgnored, "server ignores shardSelector", "selector", s.selector.String())
	}
	return true
}

// skip is skips for a stream, nil where there is nothing to skip.
func (s *sharding) skip() func(*decode.Meta) bool {
	if s.off() {
		return nil
	}
	return func(m *decode.Meta) bool { return s.skips(m, true) }
}
