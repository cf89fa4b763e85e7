package crd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	"addon-operator/internal/kube"
)

const (
	fieldManager = "addon-operator"

	// atOnce is the maximum number of definitions that are installed in parallel.
	atOnce = 4

	// establishWithin is the maximum time to wait until the API server serves the kind of a definition. Usually the
	// wait takes milliseconds, or five seconds if the cluster has several API servers.
	establishWithin = 30 * time.Second

	// writes is the maximum number of attempts to write a definition if other writers change it at the same time.
	writes = 10
)

// Installer installs definitions in a cluster. It is safe for concurrent use.
type Installer struct {
	client  *kube.Client
	crds    dynamic.ResourceInterface
	objects metadata.Interface
	labels  map[string]string
	dry     bool // whether all writes are dry runs; if so, the installer does not wait for their effects
}

// DryRun returns an Installer that does not wait for the effects of its writes. The client of the
// Installer i must turn the writes into dry runs.
func (i *Installer) DryRun() *Installer {
	dry := *i
	dry.dry = true
	return &dry
}

// NewInstaller returns an Installer that adds labels to every definition.
func NewInstaller(client *kube.Client, labels map[string]string) *Installer {
	gvr := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	return &Installer{client: client, crds: client.Dynamic().Resource(gvr), objects: client.Metadata(), labels: maps.Clone(labels)}
}

// Result is the result of [Installer.Ensure].
type Result struct {
	// Written has the names of the definitions that were created or changed, sorted.
	Written []string
	// Warnings has one sentence for each installed definition that differs from its file, because it keeps a version
	// that the file does not have.
	Warnings []string
	// Refused joins the errors of the definitions that the API server rejects. Refused is nil if it rejects no
	// definition.
	Refused error
}

// Ensure installs the definitions and waits until the API server serves their kinds. It replaces the spec of existing
// definitions. It does not remove other labels and annotations, or an existing conversion between versions.
//
// The returned error joins the errors of definitions that failed for a temporary reason, so that a retry may install
// them. If a definition fails, the others are installed nevertheless.
func (i *Installer) Ensure(ctx context.Context, definitions []Definition) (Result, error) {
	var (
		mu      sync.Mutex
		result  Result
		refused []error
		failed  []error
		group   errgroup.Group
	)
	group.SetLimit(atOnce)
	for _, d := range definitions {
		group.Go(func() error {
			done, err := i.ensure(ctx, d)
			mu.Lock()
			defer mu.Unlock()
			if done.changed {
				result.Written = append(result.Written, d.Name())
			}
			if done.warning != "" {
				result.Warnings = append(result.Warnings, done.warning)
			}
			switch {
			case err == nil:
			case kube.IsRefused(err) || errors.Is(err, errNames):
				refused = append(refused, fmt.Errorf("%s: %w", d, err))
			default:
				failed = append(failed, fmt.Errorf("%s: %w", d, err))
			}
			return nil
		})
	}
	_ = group.Wait() // the error is always nil, because a failure must not stop the other installations
	slices.Sort(result.Written)
	slices.Sort(result.Warnings)
	result.Refused = joined(refused)
	if len(result.Written) > 0 {
		i.client.Mapper().ResetWithContext(ctx)
	}
	return result, joined(failed)
}

// joined joins errors in the order of their texts.
func joined(errs []error) error {
	slices.SortFunc(errs, func(a, b error) int {
		if a.Error() < b.Error() {
			return -1
		}
		return 1
	})
	return errors.Join(errs...)
}

// installed is the result of writing one definition to the cluster.
type installed struct {
	object  *unstructured.Unstructured
	changed bool   // whether the definition was created or modified
	warning string // how the definition differs from its file, if it does
}

// ensure installs one definition.
func (i *Installer) ensure(ctx context.Context, d Definition) (installed, error) {
	done, err := i.write(ctx, d)
	if err != nil {
		return installed{}, err
	}
	if i.dry {
		return done, nil
	}
	return done, i.await(ctx, done.object)
}

// await waits until the API server serves all versions of the definition object that are marked as served.
func (i *Installer) await(ctx context.Context, object *unstructured.Unstructured) (err error) {
	ctx, cancel := context.WithTimeout(ctx, establishWithin)
	defer cancel()
	end := kube.StartWait(ctx, "served", refOf(object))
	defer func() { end(err) }()
	if err := i.established(ctx, object); err != nil {
		return err
	}
	of, err := shapeOf(object)
	if err != nil {
		return err
	}
	for _, version := range of.versions {
		if served, _ := version["served"].(bool); !served {
			continue
		}
		name, _ := version["name"].(string)
		if err := i.client.AwaitResource(ctx, of.group+"/"+name, of.plural, nil); err != nil {
			return err
		}
	}
	return nil
}

// write creates the definition d in the cluster, or updates it if it exists. It tries again after conflicts with other
// writers.
func (i *Installer) write(ctx context.Context, d Definition) (done installed, err error) {
	for range writes {
		var before *unstructured.Unstructured
		before, err = i.crds.Get(ctx, d.Name(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			done.object, err = i.create(ctx, i.merged(nil, d))
			if apierrors.IsAlreadyExists(err) {
				continue
			}
			done.changed = true
			return done, err
		}
		if err != nil {
			return done, err
		}
		if before.GetDeletionTimestamp() != nil {
			return done, errors.New("it is being deleted, and can be created again when the deletion has ended")
		}
		done.object, done.warning, err = i.change(ctx, before, i.merged(before, d))
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			continue
		}
		done.changed = err == nil && done.object.GetResourceVersion() != before.GetResourceVersion()
		return done, err
	}
	return done, fmt.Errorf("changed by other writers during each attempt: %w", err)
}

// merged returns the object to write: the definition d with the labels of the installer. The argument before is the
// object in the cluster, or nil if there is none. The result keeps the other labels and annotations of the object in
// the cluster, and its conversion between versions.
func (i *Installer) merged(before *unstructured.Unstructured, d Definition) *unstructured.Unstructured {
	want := d.object.DeepCopy()
	labels, annotations := map[string]string{}, map[string]string{}
	if before != nil {
		maps.Copy(labels, before.GetLabels())
		maps.Copy(annotations, before.GetAnnotations())
		after := before.DeepCopy()
		after.Object["spec"] = want.Object["spec"]
		if keeps, conversion := converts(before); keeps {
			_ = unstructured.SetNestedField(after.Object, conversion, "spec", "conversion") // spec is a map
		}
		want = after
	}
	maps.Copy(labels, d.object.GetLabels())
	maps.Copy(labels, i.labels)
	maps.Copy(annotations, d.object.GetAnnotations())
	want.SetLabels(labels)
	if len(annotations) > 0 {
		want.SetAnnotations(annotations)
	}
	return want
}

// converts reports whether the definition o has a conversion between versions, and returns its value of
// spec.conversion.
func converts(o *unstructured.Unstructured) (bool, any) {
	conversion, found, err := unstructured.NestedMap(o.Object, "spec", "conversion")
	if err != nil || !found || conversion["strategy"] == "None" {
		return false, nil
	}
	return true, conversion
}

// create creates the definition o in the cluster.
func (i *Installer) create(ctx context.Context, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	ctx, end := kube.StartWrite(ctx, "create", refOf(o), "")
	created, err := i.crds.Create(ctx, o, metav1.CreateOptions{FieldManager: fieldManager, FieldValidation: metav1.FieldValidationIgnore})
	end(err)
	return created, err
}

// update replaces the definition in the cluster with o. If the definition was changed since o was read, the error is a
// conflict.
func (i *Installer) update(ctx context.Context, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	ctx, end := kube.StartWrite(ctx, "update", refOf(o), "")
	updated, err := i.crds.Update(ctx, o, metav1.UpdateOptions{FieldManager: fieldManager, FieldValidation: metav1.FieldValidationIgnore})
	end(err)
	return updated, err
}

func refOf(o *unstructured.Unstructured) kube.Ref {
	return kube.Ref{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Name: o.GetName()}
}
