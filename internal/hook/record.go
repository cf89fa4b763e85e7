package hook

import (
	"bytes"
	"encoding/json"
	"strings"

	"addon-operator/internal/tree"
)

// Record is a structured log record of a hook: a line of output that is a JSON object.
type Record struct {
	// Level, Message and Time are the values of the keys level, msg and time, or "" if the key is absent. If the value
	// of msg or time is not a string, the field has the value as JSON. If the value of level is not a string, it is in
	// Fields instead.
	Level, Message, Time string
	// Fields contains all other keys of the JSON object, each with the prefix hook_. It also contains the key
	// proxyJsonLog with the value true. Numbers have the type json.Number.
	Fields map[string]any
}

// ParseRecord returns the record in a line that a hook has printed. ParseRecord returns false if the line is not a
// JSON object; the caller then logs the line as text.
func ParseRecord(line string) (Record, bool) {
	line = strings.Trim(line, " \t\r\n") // the whitespace of JSON
	if !strings.HasPrefix(line, "{") || !strings.HasSuffix(line, "}") {
		return Record{}, false
	}
	printed, err := tree.Decode([]byte(line))
	if err != nil {
		return Record{}, false
	}
	entries, ok := printed.(map[string]any)
	if !ok {
		return Record{}, false
	}
	record := Record{Fields: map[string]any{"proxyJsonLog": true}}
	for key, value := range entries {
		text, isText := value.(string)
		switch {
		case key == "level" && isText:
			record.Level = text
		case key == "msg":
			record.Message = asText(value)
		case key == "time":
			record.Time = asText(value)
		default: // includes a level that is a number, because its meaning depends on the logger of the hook
			record.Fields["hook_"+key] = value
		}
	}
	return record, true
}

// asText returns value unchanged if it is a string. Otherwise it returns value as JSON.
func asText(value any) string {
	if text, ok := value.(string); ok {
		return text
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil { // never happens, because value was decoded from JSON
		return ""
	}
	return strings.TrimSpace(out.String())
}
