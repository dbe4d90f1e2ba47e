// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
)

// Source returns a source for an informer that holds objects whole only one page at a time, and strips each page. The
// informer by itself would ask the API server to stream the list as the beginning of a watch, which takes more CPU
// time, or, where the API server does not do that, ask for the whole list at once. The pages come from the newest
// version, so they are at least as new as asked for.
func Source(source toolscache.ListerWatcher, strip toolscache.TransformFunc, log logr.Logger) toolscache.ListerWatcher {
	from := toolscache.ToListerWatcherWithContext(source)
	return paged{&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			log.Info("filling a cache")
			return list(ctx, from, options, strip)
		},
		WatchFuncWithContext: from.WatchWithContext,
	}}
}

// paged is a source that does not stream.
type paged struct{ *toolscache.ListWatch }

// IsWatchListSemanticsUnSupported makes the informer list.
func (paged) IsWatchListSemanticsUnSupported() bool { return true }

// list reads all pages.
func list(
	ctx context.Context, from toolscache.ListerWithContext, options metav1.ListOptions, strip toolscache.TransformFunc,
) (runtime.Object, error) {
	var size Size
	whole := &metav1.List{}
	options.ResourceVersion, options.ResourceVersionMatch, options.Continue = "", "", ""
	for {
		err := size.Read(func(limit int64) error {
			options.Limit = limit
			page, err := from.ListWithContext(ctx, options)
			if err != nil {
				return err
			}
			return add(whole, page, strip)
		})
		if options.Continue = whole.Continue; err != nil || options.Continue == "" {
			return whole, err
		}
	}
}

// add adds the objects of a page.
func add(whole *metav1.List, page runtime.Object, strip toolscache.TransformFunc) error {
	meta, err := apimeta.ListAccessor(page)
	if err != nil {
		return fmt.Errorf("reading the metadata of a list: %w", err)
	}
	whole.ResourceVersion, whole.Continue = meta.GetResourceVersion(), meta.GetContinue()
	return apimeta.EachListItem(page, func(object runtime.Object) error {
		stripped, err := strip(object)
		if err != nil {
			return err
		}
		kept, is := stripped.(runtime.Object)
		if !is {
			return fmt.Errorf("a %T can't be cached", stripped)
		}
		whole.Items = append(whole.Items, runtime.RawExtension{Object: kept})
		return nil
	})
}
