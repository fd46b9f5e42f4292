package listwatch

import (
	"cmp"
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/reflector/reason"
)

// errSamePage ends a list whose server hands out the same tokens for ever.
var errSamePage = errors.New("the server answered with a continue token that it was asked with before")

// Pages lists with opts.Limit items a request and follows the continue tokens;
// without a limit it is one List. sink.Meta is called for each page. The
// returned metadata has the resourceVersion of the list and no token. A token that
// expired ends it with an *Error whose Reason is Expired and Continue is set.
//
// All pages are of one resourceVersion: the token holds it, so the pages after
// the first are asked for without one (API concepts, "Retrieving large results
// sets in chunks"). Where a server moves on between pages, the list's is that of the first
// page that names one: a watch from there brings what changed since on all of them. An error of sink ends it and is returned as it is; so is
// a fault of any page. Items handed on before are good, but the list is not complete.
func Pages[T any](ctx context.Context, l Lister[T], opts metav1.ListOptions, sink Sink[T]) (metav1.ListMeta, error) {
	meta, err := l.List(ctx, opts, sink)
	// A circle of tokens comes back to each of its own. The one that is compared
	// with is taken at pages 1, 2, 4, 8 and so on, and so is one of the circle in the end.
	kept, pages := opts.Continue, 0
	rv := meta.ResourceVersion
	for err == nil && meta.Continue != "" {
		if meta.Continue == kept {
			return metav1.ListMeta{}, &Error{Reason: reason.Decode, Verb: verbList, Continue: true, Err: errSamePage}
		}
		if pages++; pages&(pages-1) == 0 {
			kept = meta.Continue
		}
		opts.Continue = meta.Continue
		opts.ResourceVersion, opts.ResourceVersionMatch = "", ""
		meta, err = l.List(ctx, opts, sink)
		rv = cmp.Or(rv, meta.ResourceVersion)
	}
	if err != nil {
		return metav1.ListMeta{}, err
	}
	meta.ResourceVersion = rv
	return meta, nil
}
