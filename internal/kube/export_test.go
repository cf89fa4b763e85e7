package kube

import (
	"context"
	"encoding/json"
	"time"
)

// The versions that [Client.ListNames] may ask for.
const (
	NewestVersion = newestVersion
	AnyVersion    = anyVersion
)

// ListNames returns the names of all objects of source, listed at version notBefore or later, and the list's version.
func (c *Client) ListNames(ctx context.Context, source Source, notBefore string) (names []string, version string, err error) {
	begun := func() { names = nil }
	each := func(raw json.RawMessage) error {
		doc, err := readDocument(raw, source)
		if err == nil {
			names = append(names, doc.id.Metadata.Name)
		}
		return err
	}
	version, err = c.list(ctx, source, false, notBefore, begun, each)
	return names, version, err
}

// DeliverVersionsEvery makes the watches report the current version every d, instead of every minute,
// while nothing changes.
func (h *Watches) DeliverVersionsEvery(d time.Duration) { h.objects.versionEvery = d }

// KnowDefinitions makes k know that there are no CustomResourceDefinitions.
func (k *Kinds) KnowDefinitions(ctx context.Context) error {
	return (&appearances{k}).Listed(ctx, List{View: View{Source: definitionSource}})
}

// Reach reads the kinds of a local version of a group, as if an APIService had announced it.
func (k *Kinds) Reach(ctx context.Context, groupName, version string) {
	k.reach(ctx, group{Group: groupName, Version: version})
}
