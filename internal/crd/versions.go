package crd

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// pageSize is the maximum number of objects in one page of a list, and rewrites is the maximum number of objects
	// that are written in parallel.
	pageSize = 500
	rewrites = 8

	// storageWithin is the time for which an API server may still store objects in the previous storage version after
	// a definition was changed. If the cluster has several API servers, a response does not show whether all of them
	// have loaded the changed definition. Kubernetes itself waits for the same time before it marks a definition as
	// established.
	storageWithin = 5 * time.Second
)

// change replaces a definition in the cluster. The argument before is the existing definition, and want is the new one.
// The API server rejects the removal of a version that is in status.storedVersions, and it cannot read objects that are
// stored in a removed version. So before such a version is removed, all objects of the kind are written again, which
// stores them in the storage version. If the writes fail, the version stays in the definition but is not served, and
// the result warning says so.
func (i *Installer) change(ctx context.Context, before, want *unstructured.Unstructured) (after *unstructured.Unstructured, warning string, err error) {
	was, err := shapeOf(before)
	if err != nil {
		return nil, "", err
	}
	now, err := shapeOf(want)
	if err != nil {
		return nil, "", err
	}
	stored := storedVersions(before)
	dropped := slices.DeleteFunc(slices.Clone(stored), now.has)
	if len(dropped) == 0 {
		after, err := i.update(ctx, want)
		return after, "", err
	}
	if after, err = i.update(ctx, keeping(want, was, dropped)); err != nil {
		return nil, "", err
	}
	if i.dry {
		return after, "", nil // a dry run does not rewrite the objects, so the dropped versions must stay
	}
	if err := i.rewrite(ctx, now); err != nil {
		return after, fmt.Sprintf("CustomResourceDefinition %s keeps version %s, which is not served, because objects may be stored in it: %v",
			want.GetName(), strings.Join(dropped, ", "), err), nil
	}
	left := slices.DeleteFunc(slices.Clone(stored), func(version string) bool { return !now.has(version) })
	if !slices.Contains(left, now.storage) {
		left = append(left, now.storage)
	}
	if err := unstructured.SetNestedStringSlice(after.Object, left, "status", "storedVersions"); err != nil {
		return nil, "", err
	}
	if after, err = i.crds.UpdateStatus(ctx, after, metav1.UpdateOptions{FieldManager: fieldManager}); err != nil {
		return nil, "", err
	}
	want.SetResourceVersion(after.GetResourceVersion())
	after, err = i.update(ctx, want)
	return after, "", err
}

// storedVersions returns the versions in which objects of the kind may be stored, from the status of the definition o.
func storedVersions(o *unstructured.Unstructured) (versions []string) {
	noted, _, _ := unstructured.NestedFieldNoCopy(o.Object, "status", "storedVersions")
	list, _ := noted.([]any) // null at first
	for _, each := range list {
		if version, isText := each.(string); isText {
			versions = append(versions, version)
		}
	}
	return versions
}

// keeping returns a copy of the definition want, with additional versions of the existing definition. The argument
// named has the names of the added versions. In the copy, they are neither served nor the storage version.
func keeping(want *unstructured.Unstructured, was shape, named []string) *unstructured.Unstructured {
	want = want.DeepCopy()
	versions, _, _ := unstructured.NestedSlice(want.Object, "spec", "versions") // no error, because shapeOf has read the versions
	for _, version := range was.versions {
		if name, _ := version["name"].(string); slices.Contains(named, name) {
			kept := unstructured.Unstructured{Object: version}
			version = kept.DeepCopy().Object
			version["served"], version["storage"] = false, false
			versions = append(versions, version)
		}
	}
	_ = unstructured.SetNestedSlice(want.Object, versions, "spec", "versions") // spec is a map
	return want
}

// rewrite makes the API server store every object of a kind in the storage version. The kind is given by the shape of
// its definition.
func (i *Installer) rewrite(ctx context.Context, of shape) error {
	if of.served == "" {
		return fmt.Errorf("no version of %s is served", of.plural)
	}
	gv := schema.GroupVersion{Group: of.group, Version: of.served}
	objects := i.objects.Resource(gv.WithResource(of.plural))
	if _, err := objects.List(ctx, metav1.ListOptions{Limit: 1}); apierrors.IsForbidden(err) {
		return fmt.Errorf("list the %s: %w", of.plural, err) // return before awaitStorage, which is slow and would delay each start for nothing
	}
	if err := i.awaitStorage(ctx, gv, of); err != nil {
		return err
	}
	for page := ""; ; {
		list, err := objects.List(ctx, metav1.ListOptions{Limit: pageSize, Continue: page})
		if err != nil {
			return fmt.Errorf("list the %s: %w", of.plural, err)
		}
		group, groupCtx := errgroup.WithContext(ctx)
		group.SetLimit(rewrites)
		for _, o := range list.Items {
			group.Go(func() error {
				// An empty patch changes nothing, so the API server writes the object only if it is
				// stored in another version.
				_, err := objects.Namespace(o.Namespace).Patch(groupCtx, o.Name, types.MergePatchType, []byte("{}"), metav1.PatchOptions{FieldManager: fieldManager})
				if err != nil && !apierrors.IsNotFound(err) {
					return fmt.Errorf("rewrite %s %s/%s in the storage version: %w", of.kind, o.Namespace, o.Name, err)
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
		if page = list.Continue; page == "" {
			return nil
		}
	}
}

// awaitStorage waits until every API server of the cluster stores objects of the kind in the storage version.
func (i *Installer) awaitStorage(ctx context.Context, gv schema.GroupVersion, of shape) error {
	ctx, cancel := context.WithTimeout(ctx, establishWithin)
	defer cancel()
	hash := storageHash(of)
	if err := i.client.AwaitResource(ctx, gv.String(), of.plural, func(r metav1.APIResource) bool { return r.StorageVersionHash == hash }); err != nil {
		return err
	}
	timer := time.NewTimer(storageWithin)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// storageHash returns the storageVersionHash that discovery shows when the API server stores objects of the kind in the
// storage version: the first eight bytes of a SHA-256 checksum, in base64. The kind is given by the shape of its
// definition.
func storageHash(of shape) string {
	sum := sha256.Sum256([]byte(of.group + "/" + of.storage + "/" + of.kind))
	return base64.StdEncoding.EncodeToString(sum[:8])
}
