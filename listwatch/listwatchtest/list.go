package listwatchtest

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"sort"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	internalscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nodewatch-go/nodewatch/listwatch/shard"
)

// options reads and checks the query parameters of a LIST or a WATCH. The
// defaults and the checks are apimachinery's, which a real server uses too.
func (s *Server) options(r *http.Request, c *collection, info requestInfo) (internalversion.ListOptions, selection, error) {
	opts := internalversion.ListOptions{}
	sel := info.scope(c)
	if err := internalscheme.ParameterCodec.DecodeParameters(r.URL.Query(), metav1.SchemeGroupVersion, &opts); err != nil {
		return opts, sel, errors.NewBadRequest(err.Error())
	}
	internalversion.SetListOptionsDefaults(&opts, true)
	if errs := validation.ValidateListOptions(&opts, true); len(errs) > 0 {
		return opts, sel, errors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", errs)
	}
	if opts.FieldSelector != nil {
		var err error
		if opts.FieldSelector, err = opts.FieldSelector.Transform(c.convertLabel); err != nil {
			return opts, sel, errors.NewBadRequest(err.Error())
		}
	}
	if info.name != "" && opts.FieldSelector != nil && !opts.FieldSelector.Empty() {
		if selected, ok := opts.FieldSelector.RequiresExactMatch("metadata.name"); !ok || selected != info.name {
			return opts, sel, errors.NewBadRequest("fieldSelector metadata.name doesn't match requested name")
		}
	}
	sel.labels, sel.fields = opts.LabelSelector, opts.FieldSelector
	if s.config.Sharding == ShardingOn && opts.ShardSelector != "" {
		var err error
		if sel.shard, err = shard.Parse(opts.ShardSelector); err != nil {
			return opts, sel, fmt.Errorf("invalid shard selector: %w", err) // a 500, as on a real server
		}
	}
	return opts, sel, nil
}

// waitFresh waits until the store is at version rv.
func (s *Server) waitFresh(ctx context.Context, rv uint64) error {
	var timeout <-chan time.Time
	for {
		s.writer.mu.Lock()
		current, moved := s.writer.rv, s.writer.moved
		s.writer.mu.Unlock()
		if current >= rv {
			return nil
		}
		if timeout == nil && s.config.FreshWait > 0 {
			timer := time.NewTimer(s.config.FreshWait)
			defer timer.Stop()
			timeout = timer.C
		}
		if timeout != nil {
			select {
			case <-moved:
				continue
			case <-ctx.Done():
				return ctx.Err()
			case <-s.done:
			case <-timeout:
			}
		}
		err := errors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", rv, current), 1)
		err.ErrStatus.Details.Causes = []metav1.StatusCause{
			{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"},
		}
		return err
	}
}

// listPlan is what the parameters of a LIST come to.
type listPlan struct {
	exact   bool // the state at rv and no other
	rv      uint64
	from    string // the key to begin at, "" is the first
	limit   int64  // 0 is none
	isToken bool   // from a continue token
	// consistent wants the newest version; without it rv is the least.
	consistent bool
}

// planList applies the table of the API concepts page, "semantics for get and list".
func planList(opts *internalversion.ListOptions, sel selection) (listPlan, error) {
	plan := listPlan{limit: opts.Limit}
	if opts.ResourceVersion == "0" {
		plan.limit = 0 // answered from the watch cache, which does not page at "any version"
	}
	if opts.Continue != "" {
		key, rv, err := decodeContinue(opts.Continue, sel.prefix)
		if err != nil {
			return plan, errors.NewBadRequest("invalid continue token: " + err.Error())
		}
		if opts.ResourceVersion != "" && opts.ResourceVersion != "0" {
			return plan, errors.NewBadRequest("specifying resource version is not allowed when using continue")
		}
		plan.from, plan.isToken = key, true
		if rv > 0 {
			plan.exact, plan.rv = true, uint64(rv)
		} else { // a negative one goes on with the latest state
			plan.consistent = true
		}
		return plan, nil
	}
	rv, err := parseRV(opts.ResourceVersion)
	if err != nil {
		return plan, errors.NewBadRequest("invalid resource version: " + err.Error())
	}
	plan.rv, plan.consistent = rv, opts.ResourceVersion == ""
	switch opts.ResourceVersionMatch {
	case metav1.ResourceVersionMatchExact:
		plan.exact = true
	case "":
		plan.exact = plan.limit > 0 && rv > 0 // as it was before resourceVersionMatch
	}
	return plan, nil
}

func (s *Server) serveList(w http.ResponseWriter, r *http.Request, c *collection, info requestInfo) error {
	out, err := negotiate(r, c)
	if err != nil {
		return err
	}
	opts, sel, err := s.options(r, c, info)
	if err != nil {
		return err
	}
	entries, listMeta, err := s.list(r.Context(), c, &opts, sel)
	if err != nil {
		return err
	}
	list, err := s.listObject(r, c, out, entries, listMeta)
	if err != nil {
		return err
	}
	s.writeObject(w, r, out, http.StatusOK, list)
	return nil
}

// list does a LIST: the entries, and the metadata that goes with them.
func (s *Server) list(ctx context.Context, c *collection, opts *internalversion.ListOptions, sel selection) ([]entry, metav1.ListMeta, error) {
	plan, err := planList(opts, sel)
	if err != nil {
		return nil, metav1.ListMeta{}, err
	}
	if err := s.waitFresh(ctx, plan.rv); err != nil {
		return nil, metav1.ListMeta{}, err
	}
	s.writer.mu.Lock()
	at := plan.rv
	if !plan.exact {
		at = s.writer.lookLocked(c, plan.rv, plan.consistent)
	}
	if at < c.floor {
		s.writer.mu.Unlock()
		return nil, metav1.ListMeta{}, errListExpired(plan, sel)
	}
	state := c.stateLocked(at)
	s.writer.mu.Unlock()

	// The scope first: what is outside it does not count as remaining.
	scoped := state[:0]
	for _, e := range state {
		if strings.HasPrefix(e.key, sel.prefix) {
			scoped = append(scoped, e)
		}
	}
	if plan.from != "" {
		scoped = scoped[sort.Search(len(scoped), func(i int) bool { return scoped[i].key >= plan.from }):]
	}
	page, more := selectPage(c, scoped, sel, plan.limit)
	listMeta := metav1.ListMeta{ResourceVersion: formatRV(at)}
	if !sel.shard.Empty() {
		listMeta.ShardInfo = &metav1.ShardInfo{Selector: sel.shard.String()}
	}
	if more {
		last := page[len(page)-1].key
		listMeta.Continue = encodeContinue("/"+strings.TrimPrefix(last, sel.prefix)+"\x00", int64(at))
		if sel.everything() {
			listMeta.RemainingItemCount = new(int64(len(scoped)) - plan.limit)
		}
	}
	return page, listMeta, nil
}

// selectPage returns the first limit selected entries, and whether there are
// entries after them, selected or not: a server looks no further.
func selectPage(c *collection, entries []entry, sel selection, limit int64) (page []entry, more bool) {
	page = []entry{}
	for i, e := range entries {
		if sel.matches(c.resource, e.key, e.object) {
			page = append(page, e)
		}
		if limit > 0 && int64(len(page)) >= limit {
			return page, i < len(entries)-1
		}
	}
	return page, false
}

// errListExpired is the 410 of a LIST. One with a continue token gets another
// token, to go on without consistency.
func errListExpired(plan listPlan, sel selection) error {
	if !plan.isToken {
		return errors.NewResourceExpired("The resourceVersion for the provided list is too old.")
	}
	err := errors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result. " +
		"You can start a new list without the continue parameter, or use the continue token in this response to " +
		"retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - " +
		"objects that were created, modified, or deleted between the time the first chunk was returned and now may " +
		"show up in the list.")
	err.ErrStatus.ListMeta.Continue = encodeContinue(strings.TrimPrefix(plan.from, sel.prefix), -1)
	return err
}

// listObject puts a page into the form that was asked for.
func (s *Server) listObject(r *http.Request, c *collection, out output, entries []entry, listMeta metav1.ListMeta) (runtime.Object, error) {
	if out.as != asItself || !c.typed {
		listMeta.ShardInfo = nil // a real server leaves it out of what it converts, and of custom resources
	}
	switch out.as {
	case asTable:
		return makeTable(r, c, entries, listMeta)
	case asMetadata:
		return nil, statusError(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
			fmt.Sprintf("you requested PartialObjectMetadata, but the requested object is a list (%sList)", c.internalType()), nil)
	case asMetadataList:
		list := &metav1.PartialObjectMetadataList{
			TypeMeta: metav1.TypeMeta{Kind: asMetadataList, APIVersion: metav1.SchemeGroupVersion.String()},
			ListMeta: listMeta, Items: make([]metav1.PartialObjectMetadata, len(entries)),
		}
		for i, e := range entries {
			list.Items[i] = *partialMetadata(e.object)
		}
		return list, nil
	}
	gvk := c.GroupVersion().WithKind(c.Kind + "List")
	if !c.typed {
		list := &unstructured.UnstructuredList{Items: make([]unstructured.Unstructured, len(entries))}
		list.SetGroupVersionKind(gvk)
		list.SetResourceVersion(listMeta.ResourceVersion)
		list.SetContinue(listMeta.Continue)
		list.SetRemainingItemCount(listMeta.RemainingItemCount)
		for i, e := range entries {
			list.Items[i] = *e.object.(*unstructured.Unstructured)
		}
		return list, nil
	}
	list, err := c.scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	list.GetObjectKind().SetGroupVersionKind(gvk)
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return nil, err
	}
	accessor.SetResourceVersion(listMeta.ResourceVersion)
	accessor.SetContinue(listMeta.Continue)
	accessor.SetRemainingItemCount(listMeta.RemainingItemCount)
	if sharded, ok := list.(metav1.ShardedListInterface); ok {
		sharded.SetShardInfo(listMeta.ShardInfo)
	}
	items := reflect.ValueOf(list).Elem().FieldByName("Items")
	items.Set(reflect.MakeSlice(items.Type(), len(entries), len(entries)))
	for i, e := range entries {
		items.Index(i).Set(reflect.ValueOf(e.object).Elem())
	}
	return list, nil
}

func partialMetadata(o Object) *metav1.PartialObjectMetadata {
	partial := meta.AsPartialObjectMetadata(o)
	partial.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind(asMetadata))
	return partial
}

func (s *Server) serveGet(w http.ResponseWriter, r *http.Request, c *collection, info requestInfo) error {
	out, err := negotiate(r, c)
	if err != nil {
		return err
	}
	rv, err := parseRV(r.URL.Query().Get("resourceVersion"))
	if err != nil {
		return err
	}
	if err := s.waitFresh(r.Context(), rv); err != nil {
		return err
	}
	obj, err := s.writer.get(c, info.namespace, info.name)
	if err != nil {
		return err
	}
	return s.writeOne(w, r, c, out, http.StatusOK, obj)
}

// writeOne answers with one object in the form that was asked for.
func (s *Server) writeOne(w http.ResponseWriter, r *http.Request, c *collection, out output, code int, obj Object) error {
	converted, err := s.convert(r, c, out, obj)
	if err != nil {
		return err
	}
	s.writeObject(w, r, out, code, converted)
	return nil
}

// convert puts one object into the form that was asked for.
func (s *Server) convert(r *http.Request, c *collection, out output, obj Object) (runtime.Object, error) {
	switch out.as {
	case asTable:
		return makeTable(r, c, []entry{{object: obj}}, metav1.ListMeta{ResourceVersion: obj.GetResourceVersion()})
	case asMetadata:
		return partialMetadata(obj), nil
	case asMetadataList:
		return nil, statusError(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
			fmt.Sprintf("you requested PartialObjectMetadataList, but the requested object is not a list (%s)", c.internalType()), nil)
	}
	return withKind(obj, c.gvk()), nil
}
