package listwatch

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/nodewatch-go/nodewatch/listwatch/shard"
	"github.com/nodewatch-go/nodewatch/streamwatcher"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
	"github.com/nodewatch-go/nodewatch/streamwatcher/frame"
)

// EncodingPolicy says which encodings to ask for. What comes back is read by its own content type.
type EncodingPolicy uint8

// The encoding policies.
const (
	EncodingAuto     EncodingPolicy = iota // protobuf where T has it, with JSON as second choice
	EncodingJSON                           // JSON only
	EncodingProtobuf                       // protobuf only; an error where T has none
)

// Compression says whether to ask for gzip.
type Compression uint8

// The compression policies.
const (
	CompressionAuto Compression = iota // not on loopback, and not when REST.DisableCompression is set
	CompressionOn
	CompressionOff
)

// Protocol is the HTTP version.
type Protocol uint8

// The protocols.
const (
	HTTP1 Protocol = iota // HTTP/1.1, forced by ALPN
	HTTP2                 // HTTP/2 where the server takes it over TLS, else HTTP/1.1
)

// Defaults of Config.
const (
	DefaultDialTimeout         = 10 * time.Second
	DefaultTLSHandshakeTimeout = 10 * time.Second
	DefaultHeaderTimeout       = 30 * time.Second
	DefaultRequestTimeout      = 60 * time.Second
	DefaultMaxItemBytes        = streamwatcher.DefaultMaxFrameBytes
)

// Config describes one collection on one API server.
type Config struct {
	// REST says where the server is and who asks: host, TLS, token and token
	// file, exec plugin, auth provider, impersonation, proxy, Dial, Transport
	// and WrapTransport are used as client-go uses them, with HTTPS_PROXY and
	// its kin where Proxy is nil. Its Timeout, when set, is the default of
	// RequestTimeout. Its QPS, Burst, RateLimiter, ContentConfig, NextProtos
	// and WarningHandler are not used. It is copied, never changed.
	REST     *rest.Config
	Resource schema.GroupVersionResource
	// Kind is of one object. Default: T's type name for the types of
	// k8s.io/api and apimachinery; else it is learned from the server's answers.
	Kind string
	// Namespace "" is all.
	Namespace string
	// LabelSelector and FieldSelector are ANDed with those of the ListOptions.
	LabelSelector labels.Selector
	FieldSelector fields.Selector
	// Shard narrows the collection to one of several parts (KEP-5866; alpha in Kubernetes 1.36). The server
	// is asked to filter; what a server sends of other shards all the same is passed over, neither
	// decoded nor handed on, and counted in Transfer().Skipped. So List and Watch give the same
	// whether the server filters, ignores the parameter or refuses it. What that
	// costs stands in docs/sharding.md. The zero value is all.
	//
	// Promises, with their tests:
	//   - Only objects of the shard are handed on, whatever the server does. Test: TestShard,
	//     TestShardIsFilteredHere, TestSharded.
	//   - A list that says it is of another selector is an error. Test: TestShardEchoOfAnotherSelector.
	Shard    shard.Shard
	Encoding EncodingPolicy
	// Decode says what is decoded of an object: Drop leaves fields out, NumbersOf lets a
	// struct with only the wanted fields be read from protobuf, Share and Intern bound what is
	// remembered of objects so that those of a reflector's store share it (see reflector.Objects).
	Decode      decode.Config
	Compression Compression
	Protocol    Protocol
	// DialTimeout bounds name resolution and connection, TLSHandshakeTimeout
	// the handshake, HeaderTimeout the time from sending the request to the end of
	// the response header. Together they bound what comes before the
	// request too: an exec plugin, a token refresh. A watch has none beyond these.
	//
	// Promises, with their tests:
	//   - Response-header and unary timeouts of their own. Test: TestEachTimeoutNamesItself, D6.txt,
	//     D7-list.txt.
	DialTimeout, TLSHandshakeTimeout, HeaderTimeout time.Duration
	// RequestTimeout is the longest time that a LIST may go without progress:
	// it bounds the dial, the handshake and the wait for the header (where it is the shorter
	// one) and each silence of the body. A total limit would cut the list that is large or
	// slow each time at the same place, and every retry would cost the server
	// as much as the first; silence is what tells a dead server from a busy one.
	RequestTimeout time.Duration
	// MaxItemBytes bounds one item of a list and one event of a watch.
	//
	// Promises, with their tests:
	//   - A frame or item over the limit (default 32 MiB) costs that item, not the stream. Test:
	//     TestListItemOverTheLimitCostsItselfOnly, TestJSONFrameOverTheLimit, TestProtobufFrameOverTheLimit,
	//     E1.txt, E1-item-too-large.txt.
	MaxItemBytes int
	// Logger gets a debug line an attempt, a warning when a CA file that
	// changed cannot be read. nil discards.
	Logger *slog.Logger
}

// withDefaults fills what is zero and cannot be wrong.
func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.DialTimeout == 0 {
		c.DialTimeout = DefaultDialTimeout
	}
	if c.TLSHandshakeTimeout == 0 {
		c.TLSHandshakeTimeout = DefaultTLSHandshakeTimeout
	}
	if c.HeaderTimeout == 0 {
		c.HeaderTimeout = DefaultHeaderTimeout
	}
	if c.RequestTimeout == 0 {
		c.RequestTimeout = DefaultRequestTimeout
		if c.REST != nil && c.REST.Timeout > 0 {
			c.RequestTimeout = c.REST.Timeout
		}
	}
	if c.MaxItemBytes == 0 {
		c.MaxItemBytes = DefaultMaxItemBytes
	}
	return c
}

// validate returns all that is wrong with a Config whose defaults are filled;
// encodings are what the decoder of T reads.
func (c Config) validate(encodings []decode.Encoding) error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("listwatch.Config: "+format, args...))
	}
	if c.REST == nil {
		bad("REST is nil; load one with clientcmd or rest.InClusterConfig")
	} else if err := validateHost(c.REST.Host); err != nil {
		bad("REST.Host: %w", err)
	}
	switch {
	case c.Resource.Resource == "":
		bad("Resource has no resource name; use the plural one, such as pods")
	case c.Resource.Version == "":
		bad("Resource %q has no version; use one that the server has, such as v1", c.Resource.Resource)
	}
	for _, segment := range []struct{ field, value string }{
		{"Resource.Group", c.Resource.Group}, {"Resource.Version", c.Resource.Version},
		{"Resource.Resource", c.Resource.Resource}, {"Namespace", c.Namespace},
	} {
		if problems := content.IsPathSegmentName(segment.value); len(problems) > 0 {
			bad("%s %q cannot be a part of a URL path: %s", segment.field, segment.value, strings.Join(problems, ", "))
		}
	}
	// A selector that selects nothing prints as "", which would ask for everything.
	if c.LabelSelector != nil && !c.LabelSelector.Empty() && c.LabelSelector.String() == "" {
		bad("LabelSelector selects nothing; there is nothing to list")
	}
	if c.FieldSelector != nil && !c.FieldSelector.Empty() && c.FieldSelector.String() == "" {
		bad("FieldSelector selects nothing; there is nothing to list")
	}
	if err := c.Shard.Validate(); err != nil {
		bad("Shard: %w", err)
	}
	if c.Encoding > EncodingProtobuf {
		bad("Encoding %d is none of EncodingAuto, EncodingJSON, EncodingProtobuf", c.Encoding)
	}
	if c.Encoding == EncodingProtobuf && !slices.Contains(encodings, decode.Protobuf) {
		bad("Encoding is EncodingProtobuf, but the type has no protobuf form; use EncodingAuto or EncodingJSON")
	}
	if c.Compression > CompressionOff {
		bad("Compression %d is none of CompressionAuto, CompressionOn, CompressionOff", c.Compression)
	}
	if c.Protocol > HTTP2 {
		bad("Protocol %d is none of HTTP1, HTTP2", c.Protocol)
	}
	for _, timeout := range []struct {
		field string
		value time.Duration
	}{
		{"DialTimeout", c.DialTimeout}, {"TLSHandshakeTimeout", c.TLSHandshakeTimeout},
		{"HeaderTimeout", c.HeaderTimeout}, {"RequestTimeout", c.RequestTimeout},
	} {
		if timeout.value < 0 {
			bad("%s %s is negative; leave it 0 for the default", timeout.field, timeout.value)
		}
	}
	if c.MaxItemBytes < 0 || c.MaxItemBytes > frame.MaxValueBytes {
		bad("MaxItemBytes %d is not between 1 and %d; leave it 0 for the default", c.MaxItemBytes, frame.MaxValueBytes)
	}
	return errors.Join(errs...)
}
