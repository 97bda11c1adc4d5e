//! Services, devices, policies and reports: controller and agent as state machines.
