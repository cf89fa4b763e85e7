package helm

import "time"

// KeepReads sets the time for which an action of c uses an object that it has read. So a test can count the reads on a
// slow machine.
func (c *Client) KeepReads(d time.Duration) { c.readFresh = d }
