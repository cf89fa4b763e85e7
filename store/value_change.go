package store

// A ValueChange is a change of a value of a module, or of a global value. Secrets are replaced with
// hashes.
type ValueChange struct {
	// Path is the JSON pointer of the value. Path begins with the key of the section.
	Path string `json:"path"`
	// Old and New are the values as JSON, cut to a maximum length. Old is empty if the value was
	// added, and New is empty if the value was removed.
	Old string `json:"old,omitempty"`
	New string `json:"new,omitempty"`
}

// ValueChanges are the changes of values by an attempt.
type ValueChanges struct {
	// List has the first changes in the order of their paths. More is the number of changes that
	// are not in List.
	List []ValueChange `json:"list"`
	More int           `json:"more,omitempty"`
}

// Limits of the stored changes of an attempt.
const (
	mostValueChanges = 20
	mostChangedText  = 200 // bytes of each value
)

// Add adds a change to List or, if List is full, increments More. Add truncates long values.
func (c *ValueChanges) Add(change ValueChange) {
	if len(c.List) == mostValueChanges {
		c.More++
		return
	}
	change.Old, change.New = truncatedTo(mostChangedText, change.Old), truncatedTo(mostChangedText, change.New)
	c.List = append(c.List, change)
}
