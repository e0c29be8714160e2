"""Adapters to other libraries' interfaces, one file each. They translate and stop: the rules are in `isis_env.game`."""
