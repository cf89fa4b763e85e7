package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"addon-operator/internal/failpoint"
	"addon-operator/internal/jq"
)

// conflictTries is the maximum number of attempts to write a ConfigMap if other writers cause conflicts.
const conflictTries = 10

// ConfigMap is a reference to one ConfigMap, which need not exist.
type ConfigMap struct {
	client *Client
	source Source
}

// ConfigMap returns a reference to the ConfigMap with this namespace and name. It sends no request.
func (c *Client) ConfigMap(namespace, name string) *ConfigMap {
	return &ConfigMap{c, Source{
		Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Namespace: namespace, Names: name,
	}}
}

// Content is the content of a ConfigMap. If the ConfigMap does not exist, only AbsentAt can be set.
type Content struct {
	Exists          bool
	Data            map[string]string
	ResourceVersion string
	// Manager is the field manager of the last change. Only Watch sets it.
	Manager string
	// OnlyOwn is true if the operator is the only field manager of the data. Watch does not set it.
	OnlyOwn bool
	// AbsentAt is a resource version at which the ConfigMap did not exist. Only Watch sets it.
	AbsentAt string
}

func (m *ConfigMap) path() string { return m.source.path() + "/" + m.source.Names }

// String returns "ConfigMap namespace/name".
func (m *ConfigMap) String() string {
	return "ConfigMap " + m.source.Namespace + "/" + m.source.Names
}

// Read returns the current content of the ConfigMap. It is not an error if the ConfigMap does not exist.
func (m *ConfigMap) Read(ctx context.Context) (Content, error) {
	text, err := read(m.client.raw.Get().AbsPath(m.path()).Do(ctx))
	if apierrors.IsNotFound(err) {
		return Content{}, nil
	}
	if err != nil {
		return Content{}, fmt.Errorf("read %s: %w", m, err)
	}
	return m.content(text)
}

// Update changes the data of the ConfigMap and returns the new content. It calls change with a copy of the current
// data, and change modifies the copy. After a conflict with another writer, Update calls change again with the newer
// data; after ten conflicts, it returns an error. If change modifies nothing, Update writes nothing. If the ConfigMap
// does not exist, Update creates it. All other fields of the ConfigMap, such as labels and annotations, stay unchanged.
//
// If change returns an error, Update returns this error without a prefix, and writes nothing.
func (m *ConfigMap) Update(ctx context.Context, change func(data map[string]string) error) (Content, error) {
	var err error
	for range conflictTries {
		var before, after Content
		if before, err = m.Read(ctx); err != nil {
			return Content{}, err
		}
		data := maps.Clone(before.Data)
		if data == nil {
			data = map[string]string{}
		}
		if err := change(data); err != nil {
			return Content{}, err
		}
		if maps.Equal(data, before.Data) {
			return before, nil
		}
		after, err = m.write(ctx, before, data)
		// If the ConfigMap was deleted after it was read, a patch fails with "not found".
		lost := apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || (apierrors.IsNotFound(err) && before.Exists)
		if !lost {
			return after, err
		}
	}
	return Content{}, fmt.Errorf("%w: %w", errConflicts, err)
}

// write sets the data of the ConfigMap and returns the new content. The argument before is the content that was read.
// If the ConfigMap was changed, created or deleted after it was read, the error is a conflict, "already exists" or "not
// found".
func (m *ConfigMap) write(ctx context.Context, before Content, data map[string]string) (Content, error) {
	body, err := m.body(before, data)
	if err != nil {
		return Content{}, err
	}
	verb, request := "create", m.client.raw.Post().AbsPath(m.source.path())
	if before.Exists {
		verb, request = "patch", m.client.raw.Patch(types.MergePatchType).AbsPath(m.path())
	}
	ctx, end := StartWrite(ctx, verb, Ref{APIVersion: m.source.Version, Kind: m.source.Kind, Namespace: m.source.Namespace, Name: m.source.Names}, "")
	text, err := read(request.Param("fieldManager", fieldManager).Body(body).Do(ctx))
	end(err)
	if err != nil {
		return Content{}, fmt.Errorf("write %s: %w", m, err)
	}
	failpoint.Reach("configmap", "written")
	return m.content(text)
}

// body returns the body of a request that sets the data of the ConfigMap.
func (m *ConfigMap) body(before Content, data map[string]string) ([]byte, error) {
	if !before.Exists {
		return json.Marshal(&corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Namespace: m.source.Namespace, Name: m.source.Names},
			Data:       data,
		})
	}
	altered := map[string]*string{}
	for key := range before.Data {
		if _, stays := data[key]; !stays {
			altered[key] = nil // in a merge patch, a null removes the key
		}
	}
	for key, value := range data {
		if old, was := before.Data[key]; !was || old != value {
			altered[key] = &value
		}
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]string{"resourceVersion": before.ResourceVersion},
		"data":     altered,
	})
}

func (m *ConfigMap) content(text []byte) (Content, error) {
	var object corev1.ConfigMap
	if err := json.Unmarshal(text, &object); err != nil {
		return Content{}, fmt.Errorf("read %s: %w", m, err)
	}
	return Content{
		Exists: true, Data: object.Data, ResourceVersion: object.ResourceVersion, OnlyOwn: onlyOwn(object.ManagedFields),
	}, nil
}

// onlyOwn reports whether the operator, and no other field manager, has written the data of a ConfigMap.
func onlyOwn(managers []metav1.ManagedFieldsEntry) (own bool) {
	for _, m := range managers {
		if !managesData(m.FieldsV1) {
			continue
		}
		if m.Manager != fieldManager {
			return false
		}
		own = true
	}
	return own
}

// managesData reports whether the fields of a ConfigMap contain its data, or a part of it. If the fields cannot be
// read, managesData returns true.
func managesData(fields *metav1.FieldsV1) bool {
	if fields == nil {
		return false
	}
	var of struct {
		Data json.RawMessage `json:"f:data"`
	}
	err := json.Unmarshal(fields.GetRawBytes(), &of)
	return err != nil || of.Data != nil
}

// Watch calls deliver with the current content, and again with the new content after changes of the data, until ctx
// ends. There may be only one call for several changes. After a gap in the watch, Watch also calls deliver, even if
// nothing has changed. If deliver returns an error, Watch calls it again. When ctx has ended, Watch returns the error
// of ctx.
func (m *ConfigMap) Watch(ctx context.Context, observer Observer, deliver func(context.Context, Content) error) error {
	data, err := jq.CompileOwn(".data")
	if err != nil {
		return err
	}
	watching := newReads(m.client, &contents{deliver: deliver}, observer)
	watching.join(m.source, data, &owner{name: m.String()})
	watching.workers.run(ctx)
	return ctx.Err()
}

// contents is the Receiver for the watch of a ConfigMap.
type contents struct {
	silent

	deliver func(context.Context, Content) error
}

func (c *contents) Listed(ctx context.Context, list List) error {
	if len(list.Objects) == 0 {
		return c.deliver(ctx, Content{AbsentAt: list.Version})
	}
	return c.deliverObject(ctx, list.Objects[0])
}

func (c *contents) Changed(ctx context.Context, batch Batch) error {
	if len(batch.Changes) == 0 {
		return nil
	}
	last := batch.Changes[len(batch.Changes)-1]
	if last.Type == Deleted {
		return c.deliver(ctx, Content{AbsentAt: batch.Version})
	}
	return c.deliverObject(ctx, last.Object)
}

func (c *contents) deliverObject(ctx context.Context, object *Object) error {
	content := Content{Exists: true, ResourceVersion: object.ResourceVersion, Manager: object.Manager}
	if object.Unfiltered {
		return errors.New("the ConfigMap's data cannot be read")
	}
	if err := json.Unmarshal(object.FilterResult, &content.Data); err != nil {
		return fmt.Errorf("read the ConfigMap's data: %w", err)
	}
	return c.deliver(ctx, content)
}
