package addons

import (
	"encoding/json"
	"maps"

	"addon-operator/internal/catalog"
	"addon-operator/steps/addons/registry"
	"addon-operator/store"
)

// A Catalog is the catalog of a scope, which is the cluster or a namespace. It has the format of the Open Service Broker
// API.
type Catalog struct {
	Services []service `json:"services"`
}

// A service is an addon in the format of the Open Service Broker API.
type service struct {
	ID                  string   `json:"id"`
	Name                string   `json:"name"`
	Description         string   `json:"description"`
	Bindable            bool     `json:"bindable"`
	BindingsRetrievable bool     `json:"bindings_retrievable"`
	PlanUpdatable       *bool    `json:"plan_updateable,omitempty"`
	Requires            []string `json:"requires,omitempty"`
	Tags                []string `json:"tags,omitempty"`
	Metadata            metadata `json:"metadata"`
	Plans               []plan   `json:"plans"`
}

type metadata struct {
	DisplayName         string            `json:"displayName"`
	ProviderDisplayName string            `json:"providerDisplayName,omitempty"`
	LongDescription     string            `json:"longDescription,omitempty"`
	DocumentationURL    string            `json:"documentationUrl,omitempty"`
	SupportURL          string            `json:"supportUrl,omitempty"`
	ImageURL            string            `json:"imageUrl,omitempty"`
	Labels              map[string]string `json:"labels"`
}

type plan struct {
	ID          string            `json:"id"`
	Name        string            `json:"name"`
	Description string            `json:"description"`
	Bindable    *bool             `json:"bindable,omitempty"`
	Free        *bool             `json:"free,omitempty"`
	Metadata    map[string]string `json:"metadata"`
	Schemas     *schemas          `json:"schemas,omitempty"`
}

type schemas struct {
	Instance map[string]parameters `json:"service_instance,omitempty"`
	Binding  map[string]parameters `json:"service_binding,omitempty"`
}

type parameters struct {
	Parameters json.RawMessage `json:"parameters"`
}

// CatalogOf returns the catalog of a scope, sorted by the IDs of the addons. The catalog has no values.
func CatalogOf(db *store.DB, scope registry.Scope) (Catalog, error) {
	c := Catalog{Services: []service{}}
	err := db.View(func(tx *store.Tx) error {
		for a, err := range registry.In(tx, scope) {
			if err != nil {
				return err
			}
			content, ok, err := registry.LoadContent(tx, a.Content)
			if err != nil {
				return err
			}
			if ok && content.Addon != nil {
				c.Services = append(c.Services, serviceOf(content.Addon))
			}
		}
		return nil
	})
	return c, err
}

func serviceOf(a *catalog.Addon) service {
	labels := map[string]string{}
	maps.Copy(labels, a.Labels)
	labels["local"] = "true"
	if a.ProvisionOnlyOnce {
		labels["provisionOnlyOnce"] = "true"
	}
	s := service{
		ID: a.ID, Name: a.Name, Description: a.Description, Bindable: a.Bindable, BindingsRetrievable: true,
		PlanUpdatable: a.PlanUpdatable, Requires: a.Requires, Tags: a.Tags, Plans: []plan{},
		Metadata: metadata{
			DisplayName: a.DisplayName, ProviderDisplayName: a.ProviderDisplayName, LongDescription: a.LongDescription,
			DocumentationURL: a.DocumentationURL, SupportURL: a.SupportURL, ImageURL: a.ImageURL, Labels: labels,
		},
	}
	for _, p := range a.Plans {
		s.Plans = append(s.Plans, plan{
			ID: p.ID, Name: p.Name, Description: p.Description, Bindable: p.Bindable, Free: p.Free,
			Metadata: map[string]string{"displayName": p.DisplayName}, Schemas: schemasOf(p),
		})
	}
	return s
}

func schemasOf(p catalog.Plan) *schemas {
	s := schemas{Instance: map[string]parameters{}, Binding: map[string]parameters{}}
	for _, one := range []struct {
		to     map[string]parameters
		name   string
		schema json.RawMessage
	}{{s.Instance, "create", p.CreateSchema}, {s.Instance, "update", p.UpdateSchema}, {s.Binding, "create", p.BindSchema}} {
		if one.schema != nil {
			one.to[one.name] = parameters{one.schema}
		}
	}
	if len(s.Instance)+len(s.Binding) == 0 {
		return nil
	}
	return &s
}
