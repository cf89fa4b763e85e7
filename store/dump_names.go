package store

import (
	"bytes"
	"encoding/json"
)

// A dump shows some fields under other names than those on disk. The names on disk cannot change
// without a new schema. The names in a dump are the terms of the documentation.
var (
	taskNames = map[string]string{
		"walk": "run", "lenient": "allowFailure", "alone": "noBatch", "solo": "ownQueue",
		"of": "parent", "of.pos.place": "slot", "of.pos.height": "depth",
		"list": "fanOut", "list.side": "group", "home": "homeQueue", "claim.alone": "exclusive",
		"clears": "cancelsPending", "orphan": "abandoned",
	}
	// dumpNames maps the renamed fields of each table to their names in a dump. The map key of a
	// field in a nested object is its path on disk, for example "pos.place".
	dumpNames = map[Table]map[string]string{
		Meta:       {"startWalk": "startRun", "pos.place": "slot", "pos.height": "depth"},
		Unique:     {"pos.place": "slot", "pos.height": "depth"},
		Queues:     taskNames,
		Deferred:   taskNames,
		Held:       taskNames,
		ConfigMap:  {"walk": "run"},
		History:    {"walk": "run"},
		Quarantine: {"walk": "run"},
		Buckets:    {"putOff": "deferrals"},
		Journal:    {"data.given": "observed", "data.withheld": "blocked"},
	}
	// dumpParts maps the first part of a key on disk to its text in a dump, if the two differ.
	dumpParts = map[Table]map[any]string{
		Meta:    {"life": "startup", "alone": "exclusive"},
		Metrics: {"sheet": "shard"},
	}
)

// withNames returns a JSON value whose fields are renamed as in names. path is empty, or the path of the value with a
// dot at its end. A value that is not an object is returned unchanged.
func withNames(v json.RawMessage, names map[string]string, path string) json.RawMessage {
	in := json.NewDecoder(bytes.NewReader(v))
	if start, err := in.Token(); err != nil || start != json.Delim('{') {
		return v
	}
	out := []byte{'{'}
	for in.More() {
		name, err := in.Token()
		if err != nil {
			return v
		}
		field, isText := name.(string)
		var value json.RawMessage
		if err := in.Decode(&value); err != nil || !isText {
			return v
		}
		shown, renamed := names[path+field]
		if !renamed {
			shown = field
		}
		text, err := json.Marshal(shown)
		if err != nil {
			return v
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(out, text...), ':')
		out = append(out, withNames(value, names, path+field+".")...)
	}
	return append(out, '}')
}
