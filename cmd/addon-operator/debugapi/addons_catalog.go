package debugapi

import (
	"encoding/json"
	"maps"
	"net/http"

	"addon-operator/internal/catalog"
	"addon-operator/steps/addons/registry"
	"addon-operator/store"
)

// A brokerCatalog is the catalog of a scope in the shape of the Open Service Broker API.
type brokerCatalog struct {
	Services []brokerService `json:"services"`
}

// A brokerService is an addon.
type brokerService struct {
	ID                  string         `json:"id"`
	Name                string         `json:"name"`
	Description         string         `json:"description"`
	Bindable            bool           `json:"bindable"`
	BindingsRetrievable bool           `json:"bindings_retrievable"`
	PlanUpdatable       *bool          `json:"plan_updateable,omitempty"`
	Requires            []string       `json:"requires,omitempty"`
	Tags                []string       `json:"tags,omitempty"`
	Metadata            brokerMetadata `json:"metadata"`
	Plans               []brokerPlan   `json:"plans"`
}

type brokerMetadata struct {
	DisplayName         string            `json:"displayName"`
	ProviderDisplayName string            `json:"providerDisplayName,omitempty"`
	LongDescription     string            `json:"longDescription,omitempty"`
	DocumentationURL    string            `json:"documentationUrl,omitempty"`
	SupportURL          string            `json:"supportUrl,omitempty"`
	ImageURL            string            `json:"imageUrl,omitempty"`
	Labels              map[string]string `json:"labels"`
}

type brokerPlan struct {
	ID          string            `json:"id"`
	Name        string            `json:"name"`
	Description string            `json:"description"`
	Bindable    *bool             `json:"bindable,omitempty"`
	Free        *bool             `json:"free,omitempty"`
	Metadata    map[string]string `json:"metadata"`
	Schemas     *brokerSchemas    `json:"schemas,omitempty"`
}

type brokerSchemas struct {
	Instance map[string]brokerParameters `json:"service_instance,omitempty"`
	Binding  map[string]brokerParameters `json:"service_binding,omitempty"`
}

type brokerParameters struct {
	Parameters json.RawMessage `json:"parameters"`
}

// catalogRoutes adds the catalogs. They show no values.
func (pages addonPages) catalogRoutes(mux *http.ServeMux) {
	serve := func(w http.ResponseWriter, scope registry.Scope) {
		c, err := pages.brokerCatalog(scope)
		if err == nil {
			err = Page{Data: c}.Write(w, "json")
		}
		if err != nil {
			Fail(w, err)
		}
	}
	mux.HandleFunc("GET /cluster/v2/catalog", func(w http.ResponseWriter, _ *http.Request) { serve(w, registry.Cluster) })
	mux.HandleFunc("GET /ns/{namespace}/v2/catalog", func(w http.ResponseWriter, r *http.Request) {
		serve(w, registry.Scope(r.PathValue("namespace")))
	})
}

// brokerCatalog returns the catalog of a scope, by the IDs of the addons.
func (pages addonPages) brokerCatalog(scope registry.Scope) (brokerCatalog, error) {
	c := brokerCatalog{Services: []brokerService{}}
	err := pages.db.View(func(tx *store.Tx) error {
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

func serviceOf(a *catalog.Addon) brokerService {
	labels := map[string]string{}
	maps.Copy(labels, a.Labels)
	labels["local"] = "true"
	if a.ProvisionOnlyOnce {
		labels["provisionOnlyOnce"] = "true"
	}
	s := brokerService{
		ID: a.ID, Name: a.Name, Description: a.Description, Bindable: a.Bindable, BindingsRetrievable: true,
		PlanUpdatable: a.PlanUpdatable, Requires: a.Requires, Tags: a.Tags, Plans: []brokerPlan{},
		Metadata: brokerMetadata{
			DisplayName: a.DisplayName, ProviderDisplayName: a.ProviderDisplayName, LongDescription: a.LongDescription,
			DocumentationURL: a.DocumentationURL, SupportURL: a.SupportURL, ImageURL: a.ImageURL, Labels: labels,
		},
	}
	for _, p := range a.Plans {
		s.Plans = append(s.Plans, brokerPlan{
			ID: p.ID, Name: p.Name, Description: p.Description, Bindable: p.Bindable, Free: p.Free,
			Metadata: map[string]string{"displayName": p.DisplayName}, Schemas: schemasOf(p),
		})
	}
	return s
}

func schemasOf(p catalog.Plan) *brokerSchemas {
	s := brokerSchemas{Instance: map[string]brokerParameters{}, Binding: map[string]brokerParameters{}}
	for _, one := range []struct {
		to     map[string]brokerParameters
		name   string
		schema json.RawMessage
	}{{s.Instance, "create", p.CreateSchema}, {s.Instance, "update", p.UpdateSchema}, {s.Binding, "create", p.BindSchema}} {
		if one.schema != nil {
			one.to[one.name] = brokerParameters{one.schema}
		}
	}
	if len(s.Instance)+len(s.Binding) == 0 {
		return nil
	}
	return &s
}
