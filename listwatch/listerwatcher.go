package listwatch

import (
	"context"
	"net/url"
	"slices"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nodewatch-go/nodewatch/streamwatcher"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// ListerWatcher makes LIST and WATCH requests for one collection. It never
// retries and stores nothing. It is safe for use by several goroutines, and any
// number of lists and watches may be under way at the same time.
//
// Promises, with their tests:
//   - TCP keep-alive 15 s/5 s/3 (about 30 s for a dead peer). Test: TestKeepAlive.
type ListerWatcher[T any] struct {
	config       Config
	url          *url.URL // of the collection, without a query
	trips        *roundTrippers
	decoder      decode.Decoder[T]
	hasProtobuf  bool
	metadataOnly bool
	gzip         bool
	transfer     streamwatcher.Transfer
	shards       sharding

	// jsonOnly is set once the server refused protobuf and served JSON.
	jsonOnly atomic.Bool
}

// New returns a ListerWatcher. It makes no request. Its errors name the field
// of Config that is wrong.
func New[T any](c Config) (*ListerWatcher[T], error) {
	c = c.withDefaults()
	decoder, err := decode.NewWith[T](c.Decode)
	if err != nil {
		return nil, err
	}
	if err := c.validate(decoder.Encodings()); err != nil {
		return nil, err
	}
	if c.Kind == "" {
		c.Kind = decode.KindOf[T]()
	}
	u, err := collectionURL(c)
	if err != nil {
		return nil, err
	}
	trips, err := newRoundTrippers(c)
	if err != nil {
		return nil, err
	}
	var zero T
	_, metadataOnly := any(zero).(*metav1.PartialObjectMetadata)
	lw := &ListerWatcher[T]{
		config:       c,
		url:          u,
		trips:        trips,
		decoder:      decoder,
		hasProtobuf:  slices.Contains(decoder.Encodings(), decode.Protobuf),
		metadataOnly: metadataOnly,
		gzip:         wantsGzip(c, u),
	}
	lw.shards.init(c)
	return lw, nil
}

// Resource returns what is listed and watched.
func (lw *ListerWatcher[T]) Resource() schema.GroupVersionResource { return lw.config.Resource }

// Kind returns the kind of one object: Config.Kind, or T's own where T is a
// built-in type, else "".
func (lw *ListerWatcher[T]) Kind() string { return lw.config.Kind }

// Transfer returns the byte counters of all requests so far. Bodies of errors
// are not in them.
func (lw *ListerWatcher[T]) Transfer() *streamwatcher.Transfer { return &lw.transfer }

// Close gives back the connections that no request uses. Requests under way
// end with their contexts; the ListerWatcher stays usable.
func (lw *ListerWatcher[T]) Close() { lw.trips.base.closeIdle() }

// Lister is the LIST half of a ListerWatcher.
type Lister[T any] interface {
	List(ctx context.Context, opts metav1.ListOptions, sink Sink[T]) (metav1.ListMeta, error)
}

var _ Lister[*metav1.PartialObjectMetadata] = (*ListerWatcher[*metav1.PartialObjectMetadata])(nil)
