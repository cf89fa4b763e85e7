package hook

import (
	"bytes"
	"encoding/json"
	"strings"

	"addon-operator/internal/tree"
)

// Record is the content of a structured log record, read from a line of output that is a JSON
// object.
type Record struct {
	// Level, Message and Time are the values of the keys level, msg and time; "" if the key is
	// absent. If msg or time is not a string, its value is written as JSON. If level is not a
	// string, it is in Fields.
	Level, Message, Time string
	// Fields contains all other keys with the prefix hook_, and the key proxyJsonLog with the value
	// true. Numbers are of type json.Number.
	Fields map[string]any
}

// ParseRecord parses a line of a hook's output as a JSON object. It returns false for any other
// line, which the caller logs as text.
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
		default: // also a numeric level, whose meaning depends on the logger of the hook
			record.Fields["hook_"+key] = value
		}
	}
	return record, true
}

// asText returns a string unchanged, and any other value as JSON.
func asText(value any) string {
	if text, ok := value.(string); ok {
		return text
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil { // a decoded value can be encoded
		return ""
	}
	return strings.TrimSpace(out.String())
}
