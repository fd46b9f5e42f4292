// Package reason names why a LIST or a WATCH ended.
//
// The set is closed. The same string is the log field, the metric label and
// Status().LastRestart.Reason of a reflector, so what an operator reads in one
// place can be searched for in the others.
package reason

import "errors"

// Reason is one name of the closed set below.
type Reason string

// The set. A reason belongs to the end of one attempt (one request), never to
// a reflector as a whole.
const (
	// EOF: the server ended the watch cleanly, as it does at its timeout.
	EOF Reason = "eof"
	// Expired: the resourceVersion is older than what the server keeps (410,
	// Status reason Expired or Gone), as an HTTP status or as an ERROR event.
	Expired Reason = "expired"
	// RVTooLarge: the resourceVersion is newer than what the server has seen
	// (504 with the cause ResourceVersionTooLarge, or its message alone).
	RVTooLarge Reason = "rv_too_large"
	// RVRegressed: the server went back in time; a bookmark or a list carries
	// a lower resourceVersion than what was seen before.
	RVRegressed Reason = "rv_regressed"
	// TooManyRequests: 429, from priority and fairness or while the server's
	// storage is initializing.
	TooManyRequests Reason = "too_many_requests"
	// ServerError: 5xx, or an ERROR event that has no name of its own.
	ServerError Reason = "server_error"
	// Forbidden: 403.
	Forbidden Reason = "forbidden"
	// Unauthorized: 401.
	Unauthorized Reason = "unauthorized"
	// Rejected: any other 4xx, the server will not serve the request as it is
	// (400, 404, 405, 406, 415, 422, a redirect to another host).
	Rejected Reason = "rejected"
	// Idle: no byte came within the idle limit; the connection is taken for dead.
	Idle Reason = "idle"
	// Deadline: a time limit of ours passed (response header, a LIST that makes
	// no progress, a watch that outlived the timeout it asked for).
	Deadline Reason = "deadline"
	// Decode: the bytes are not what the content type says, or what they hold is of another kind.
	Decode Reason = "decode"
	// Transport: dial, TLS, reset, a body that ends in the middle.
	Transport Reason = "transport"
	// ShortWatch: the server ended the watch cleanly, long before its time, and it brought nothing.
	ShortWatch Reason = "short_watch"
	// WatchListUnsupported: the server refused sendInitialEvents.
	WatchListUnsupported Reason = "watchlist_unsupported"
	// WatchListIncomplete: a watch-list ended, or stayed, without the bookmark
	// that marks the end of the initial events.
	WatchListIncomplete Reason = "watchlist_incomplete"
	// Replay: the server sent events again that lie before the watch's start.
	Replay Reason = "replay"
	// Stopped: the caller's context ended.
	Stopped Reason = "stopped"
)

// All returns the closed set in a fixed order, for metrics and exhaustive tests.
func All() []Reason {
	return []Reason{
		EOF, Expired, RVTooLarge, RVRegressed, TooManyRequests, ServerError, Forbidden, Unauthorized, Rejected,
		Idle, Deadline, Decode, Transport, ShortWatch, WatchListUnsupported, WatchListIncomplete, Replay, Stopped,
	}
}

// Carrier is an error that knows its reason.
type Carrier interface {
	error
	// FaultReason returns the reason; it is one of All.
	FaultReason() Reason
}

// Of returns the reason of the first Carrier in err's tree, and whether there is one.
func Of(err error) (Reason, bool) {
	var c Carrier
	if errors.As(err, &c) {
		return c.FaultReason(), true
	}
	return "", false
}
