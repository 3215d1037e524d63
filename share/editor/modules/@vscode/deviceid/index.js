// VS Code asks for an id of this machine, to be sent with telemetry: there is neither.
'use strict';
module.exports.getDeviceId = async () => '';
