package catalog

import "encoding/json"

// An Addon has the metadata and plans of an addon, without the files of its chart. It is stored as JSON.
type Addon struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Version     string `json:"version"`
	Description string `json:"description"`
	DisplayName string `json:"displayName"`

	Tags                []string          `json:"tags,omitempty"`
	Bindable            bool              `json:"bindable,omitempty"`
	BindingsRetrievable bool              `json:"bindingsRetrievable,omitempty"`
	PlanUpdatable       *bool             `json:"planUpdatable,omitempty"`
	Requires            []string          `json:"requires,omitempty"`
	ProviderDisplayName string            `json:"providerDisplayName,omitempty"`
	LongDescription     string            `json:"longDescription,omitempty"`
	DocumentationURL    string            `json:"documentationURL,omitempty"`
	SupportURL          string            `json:"supportURL,omitempty"`
	ImageURL            string            `json:"imageURL,omitempty"`
	ProvisionOnlyOnce   bool              `json:"provisionOnlyOnce,omitempty"`
	Labels              map[string]string `json:"labels,omitempty"`
	// Docs is the content of docs/meta.yaml as JSON. It is nil if the file does not exist or is empty.
	Docs json.RawMessage `json:"docs,omitempty"`

	// Plans are the plans of the addon, sorted by the names of their directories.
	Plans []Plan `json:"plans"`
	Chart Chart  `json:"chart"`
}

// A Plan is a named set of values for the chart of an addon.
type Plan struct {
	// Directory is the name of the plan's directory below plans/.
	Directory   string `json:"directory"`
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
	DisplayName string `json:"displayName"`
	Bindable    *bool  `json:"bindable,omitempty"`
	Free        *bool  `json:"free,omitempty"`

	// Values is the content of the plan's values.yaml as a JSON object. It is nil if the file does not exist or is
	// empty.
	Values json.RawMessage `json:"values,omitempty"`
	// CreateSchema, UpdateSchema and BindSchema are the contents of the plan's schema files, which are JSON objects. A
	// schema is nil if its file does not exist.
	CreateSchema json.RawMessage `json:"createSchema,omitempty"`
	UpdateSchema json.RawMessage `json:"updateSchema,omitempty"`
	BindSchema   json.RawMessage `json:"bindSchema,omitempty"`
	// Bind is the content of the plan's template bind.yaml. It is nil if the file does not exist.
	Bind []byte `json:"bind,omitempty"`
}

// A Chart identifies the Helm chart of an addon.
type Chart struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Digest is the SHA-256 checksum, in hex, of [Loaded.Archive]. Charts with equal files have equal digests.
	Digest string `json:"digest"`
}

// Loaded is an addon that [Load] has read from its files.
type Loaded struct {
	Addon Addon
	// Archive is the chart as a gzipped tar archive. It depends only on the files of the chart.
	Archive []byte
	// Advice contains findings about the chart, mostly of helm lint. They do not make the addon fail.
	Advice []string
}
