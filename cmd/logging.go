// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	stdlog "log"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

func (o *managerOptions) logger() (logr.Logger, error) {
	level, known := map[string]zapcore.Level{"debug": zapcore.DebugLevel, "info": zapcore.InfoLevel, "error": zapcore.ErrorLevel}[o.logLevel]
	if !known {
		return logr.Logger{}, fmt.Errorf("--log-level=%s: write debug, info or error", o.logLevel)
	}
	switch o.logFormat {
	case "json":
		return zap.New(zap.Level(level), zap.JSONEncoder()), nil
	case "console":
		return zap.New(zap.Level(level), zap.ConsoleEncoder(func(c *zapcore.EncoderConfig) { c.EncodeTime = zapcore.TimeEncoderOfLayout(time.TimeOnly) })), nil
	default:
		return logr.Logger{}, fmt.Errorf("--log-format=%s: write json or console", o.logFormat)
	}
}

// logThrough makes one logger that of all libraries. net/http writes to the standard one, client-go to klog, each in a
// form of its own, which a collector of JSON lines can't read.
func logThrough(log logr.Logger) {
	ctrl.SetLogger(log)
	klog.SetLogger(log.WithName("client-go"))
	stdlog.SetFlags(0)
	stdlog.SetOutput(lines{log.WithName("net-http")})
}

// lines is a writer that logs what is written to it.
type lines struct{ log logr.Logger }

// Write implements io.Writer. The standard logger writes one message a call.
func (l lines) Write(b []byte) (int, error) {
	l.log.Info(strings.TrimSpace(string(b)))
	return len(b), nil
}
