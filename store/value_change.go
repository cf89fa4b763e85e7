package store

// A ValueChange is another value at a path of the values of a module or of the global values. Secrets are replaced by marks.
type ValueChange struct {
	// Path is the JSON pointer of the value. It begins with the key of the section.
	Path string `json:"path"`
	// Old and New are the values as JSON, within bounds. Old is empty if there was none, and New if there is none any more.
	Old string `json:"old,omitempty"`
	New string `json:"new,omitempty"`
}

// ValueChanges are what an attempt changed of values.
type ValueChanges struct {
	// List has the first changes, by path, and More is the number of the others.
	List []ValueChange `json:"list"`
	More int           `json:"more,omitempty"`
}

// Bounds of the changes of an attempt.
const (
	mostValueChanges = 20
	mostChangedText  = 200 // bytes of each value
)

// Add adds a change, or counts it. Long values are truncated.
func (c *ValueChanges) Add(change ValueChange) {
	if len(c.List) == mostValueChanges {
		c.More++
		return
	}
	change.Old, change.New = truncatedTo(mostChangedText, change.Old), truncatedTo(mostChangedText, change.New)
	c.List = append(c.List, change)
}
