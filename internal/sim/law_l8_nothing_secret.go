// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"regexp"
	"strings"
)

// instant finds a time in a message.
var instant = regexp.MustCompile(`\d\d:\d\d:\d\d`)

func lawNothingSecret() law {
	return law{"L8", "status, events and logs hold no secret; status holds no request ids and no times", plain(func(w *World, c *call) string {
		for _, s := range w.spoken {
			if strings.Contains(s, secretMark) {
				return "an event or the log tells a secret: " + s
			}
		}
		w.spoken = w.spoken[:0]
		if c == nil || c.op != Status || c.proxy == nil {
			return ""
		}
		for _, k := range c.proxy.Status.Conditions {
			if strings.Contains(k.Message, "request id") || strings.Contains(k.Message, secretMark) || instant.MatchString(k.Message) {
				return "status tells a secret, a request id or a time: " + k.Message
			}
		}
		return ""
	})}
}
